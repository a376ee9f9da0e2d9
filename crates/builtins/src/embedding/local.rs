//! Vectors from a model inside the gateway: BERT-type models in the layout of sentence-transformers.
//!
//! Invariants: nothing is downloaded. The folder contains `config.json`, `tokenizer.json` and
//! `model.safetensors`, and for unusual settings `sentence_bert_config.json` and `1_Pooling/config.json`. The
//! work runs on at most [`AT_A_TIME`] blocking threads. It ends between two windows if the deadline is over
//! or the caller is gone. A text beyond the model's window is embedded in parts, whose mean is returned. The
//! weights are read and not mapped, because mapping is unsafe if the file changes.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config as Layout};
use futures_util::FutureExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::Tokenizer;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::config::LocalModelOptions;
use super::{Embedding, EmbeddingFuture, Error, Window, is_vector};
use runtime::regular_file;
use upstream::api::Error as Failure;

/// Most calls at a time; others wait. The computation uses threads of its own.
const AT_A_TIME: usize = 2;
/// Largest file that is read, in bytes. Larger weights do not suit this use.
const MOST_BYTES: u64 = 4 << 30;
/// Smallest usable window, in tokens.
const LEAST_WINDOW: usize = 3;

const WORD: &str = "local";

/// A model in memory.
pub(crate) struct LocalModel {
    model: Arc<BertEncoder>,
    name: String,
    permits: Arc<Semaphore>,
}

struct BertEncoder {
    tokenizer: Tokenizer,
    bert: BertModel,
    pooling: Pooling,
    dimension: usize,
    /// Tokens of a text that the model reads, at least one.
    window: usize,
    /// Tokens that are added before and after every text.
    around: (Vec<u32>, Vec<u32>),
}

/// How the vectors of the tokens are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooling {
    Mean,
    /// The vector of the first token is used.
    First,
}

/// `sentence_bert_config.json`.
#[derive(Deserialize)]
struct SentenceBertConfig {
    max_seq_length: Option<usize>,
}

/// `1_Pooling/config.json`.
#[derive(Deserialize)]
struct PoolingModes {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

impl LocalModel {
    /// Loads the model on a blocking thread.
    pub(crate) async fn load(options: &LocalModelOptions) -> Result<Self, Error> {
        let folder = options.model_dir.clone();
        let loaded = tokio::task::spawn_blocking(move || BertEncoder::load(&folder)).await;
        let model = loaded.unwrap_or_else(|_| Err(unusable("reading it failed")))?;
        let permits = Arc::new(Semaphore::new(AT_A_TIME));
        Ok(Self { model: Arc::new(model), name: options.model.clone(), permits })
    }

    async fn all(&self, texts: &[String], deadline: Instant) -> Result<Vec<Vec<f32>>, Error> {
        if let Some(index) = texts.iter().position(String::is_empty) {
            return Err(Error::Empty { index, count: texts.len() });
        }
        let started = Instant::now();
        let late = |_| self.failed(Failure::TimedOut { after: started.elapsed() });
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await.map_err(late)?;
        // A free permit is taken after the deadline too, and a short text would then be embedded in spite of it.
        if Instant::now() >= deadline {
            return Err(self.failed(Failure::TimedOut { after: started.elapsed() }));
        }
        let (model, texts) = (Arc::clone(&self.model), texts.to_vec());
        let (sender, answer) = oneshot::channel();
        // The work ends when the receiver is dropped, so the task is not awaited.
        drop(tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let goes_on = || !sender.is_closed();
            let texts = texts.iter().take_while(|_| goes_on());
            let vectors: Result<Vec<_>, _> = texts.map(|text| model.vector(text, &goes_on)).collect();
            let _ = sender.send(vectors);
        }));
        let answer = timeout_at(deadline, answer).await.map_err(late)?;
        let failed = |reason: String| Error::Nonsense { provider: WORD, model: self.name.clone(), reason };
        answer.map_err(|_| failed("it broke off".into()))?.map_err(failed)
    }

    fn failed(&self, failure: Failure) -> Error {
        Error::Failed { provider: WORD, model: self.name.clone(), failure }
    }
}

impl Embedding for LocalModel {
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        self.all(texts, deadline).boxed()
    }

    fn provider(&self) -> &'static str {
        WORD
    }

    fn model(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> Option<usize> {
        Some(self.model.dimension)
    }

    fn window(&self) -> Window {
        Window::of_tokens(self.model.window)
    }
}

impl BertEncoder {
    fn load(folder: &Path) -> Result<Self, Error> {
        let layout: Layout = json(folder, "config.json")?;
        let window = window(folder, layout.max_position_embeddings)?;
        let pooling = pooling(folder)?;
        let tokenizer = tokenizer(folder)?;
        let around = around(&tokenizer)?;
        let window = window.saturating_sub(around.0.len() + around.1.len()).max(1);
        let weights = read(folder, "model.safetensors")?;
        let dimension = layout.hidden_size;
        let bert = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)
            .and_then(|weights| BertModel::load(weights, &layout))
            .map_err(|error| unusable(&format!("`model.safetensors`: {error}")))?;
        Ok(Self { tokenizer, bert, pooling, dimension, window, around })
    }

    /// Returns the normalized vector of `text`. If `should_continue` returned false, the result is incomplete and
    /// must be ignored.
    fn vector(&self, text: &str, goes_on: &dyn Fn() -> bool) -> Result<Vec<f32>, String> {
        let tokens = self.tokenizer.encode(text, false).map_err(|error| error.to_string())?;
        let vector = self.whole(tokens.get_ids(), goes_on).map_err(|error| error.to_string())?;
        if is_vector(&vector) { Ok(vector) } else { Err("a vector has a number that is not finite".into()) }
    }

    /// Returns the weighted mean of the windows' vectors. The weight of a window is its share of tokens.
    fn whole(&self, tokens: &[u32], goes_on: &dyn Fn() -> bool) -> candle_core::Result<Vec<f32>> {
        let mut windows = tokens.chunks(self.window);
        let mut sum = self.pooled(windows.next().unwrap_or_default())?;
        for window in windows.take_while(|_| goes_on()) {
            #[allow(clippy::cast_precision_loss)] // of two small counts
            let share = window.len() as f64 / self.window as f64;
            sum = (sum + (self.pooled(window)? * share)?)?;
        }
        normalized(&sum)?.to_vec1()
    }

    fn pooled(&self, tokens: &[u32]) -> candle_core::Result<Tensor> {
        let (first, last) = &self.around;
        let ids = Tensor::new([first, tokens, last].concat().as_slice(), &Device::Cpu)?.unsqueeze(0)?;
        let kinds = ids.zeros_like()?;
        let tokens = self.bert.forward(&ids, &kinds, None)?.squeeze(0)?;
        let vector = match self.pooling {
            Pooling::Mean => tokens.mean(0)?,
            Pooling::First => tokens.get(0)?,
        };
        normalized(&vector)
    }
}

fn normalized(vector: &Tensor) -> candle_core::Result<Tensor> {
    vector.broadcast_div(&vector.sqr()?.sum_all()?.sqrt()?)
}

fn window(folder: &Path, most: usize) -> Result<usize, Error> {
    let limits: Option<SentenceBertConfig> = optional(folder, "sentence_bert_config.json")?;
    Ok(limits
        .and_then(|limits| limits.max_seq_length)
        .unwrap_or(most)
        .clamp(LEAST_WINDOW, most.max(LEAST_WINDOW)))
}

fn pooling(folder: &Path) -> Result<Pooling, Error> {
    match optional::<PoolingModes>(folder, "1_Pooling/config.json")? {
        None => Ok(Pooling::Mean),
        Some(modes) if modes.pooling_mode_mean_tokens && !modes.pooling_mode_cls_token => Ok(Pooling::Mean),
        Some(modes) if modes.pooling_mode_cls_token && !modes.pooling_mode_mean_tokens => Ok(Pooling::First),
        Some(_) => {
            Err(unusable("`1_Pooling/config.json`: only the mean of all tokens or the first one is known"))
        }
    }
}

fn tokenizer(folder: &Path) -> Result<Tokenizer, Error> {
    let mut tokenizer = Tokenizer::from_bytes(read(folder, "tokenizer.json")?).map_err(no_tokenizer)?;
    tokenizer.with_padding(None).with_truncation(None).map_err(no_tokenizer)?;
    Ok(tokenizer)
}

/// Returns the tokens that the tokenizer adds before and after a text, taken from a text of one letter.
fn around(tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let bare = tokenizer.encode("a", false).map_err(no_tokenizer)?;
    let whole = tokenizer.encode("a", true).map_err(no_tokenizer)?;
    let (bare, whole) = (bare.get_ids(), whole.get_ids());
    let at = whole.windows(bare.len().max(1)).position(|ids| ids == bare).unwrap_or(0);
    Ok((whole[..at].to_vec(), whole[(at + bare.len()).min(whole.len())..].to_vec()))
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes the error by value
fn no_tokenizer(error: tokenizers::Error) -> Error {
    unusable(&format!("`tokenizer.json`: {error}"))
}

fn json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, Error> {
    let read = read(folder, name)?;
    serde_json::from_slice(&read).map_err(|error| unusable(&format!("`{name}`: {error}")))
}

fn optional<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Error> {
    if folder.join(name).exists() { json(folder, name).map(Some) } else { Ok(None) }
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let path = folder.join(name);
    let cannot = |error: std::io::Error| unusable(&format!("`{name}`: {error}"));
    regular_file::read(&path, MOST_BYTES).map_err(cannot)
}

fn unusable(reason: &str) -> Error {
    Error::Unusable { reason: reason.to_owned() }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
