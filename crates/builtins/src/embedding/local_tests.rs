//! Tests with a tiny model that is made for them.

use std::fs;
use std::path::PathBuf;

use candle_nn::VarMap;
use serde_json::json;
use tempfile::TempDir;

use super::super::testing::{soon, texts};
use super::*;

/// Makes a folder with a model of random weights: dimension 8, and a window of 6 tokens, two of them around
/// the text.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, value: serde_json::Value| {
        fs::write(folder.path().join(name), value.to_string()).expect("written");
    };
    let layout = json!({
        "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
        "max_position_embeddings": 16, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "pad_token_id": 0, "position_embedding_type": "absolute", "use_cache": true, "model_type": "bert",
    });
    write("config.json", layout.clone());
    write("sentence_bert_config.json", json!({"max_seq_length": 6}));
    let words = ["[UNK]", "a", "b", "c", "d", "e", "f", "g", "h", "[CLS]", "[SEP]"];
    let vocabulary: serde_json::Map<_, _> =
        words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    write(
        "tokenizer.json",
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
            "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 9], "sep": ["[SEP]", 10]},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
        }),
    );
    let (weights, layout) = (VarMap::new(), serde_json::from_value::<Layout>(layout).expect("a layout"));
    BertModel::load(VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu), &layout).expect("weights");
    weights.save(folder.path().join("model.safetensors")).expect("written");
    folder
}

async fn load(folder: PathBuf) -> Result<LocalModel, Error> {
    LocalModel::load(&LocalModelOptions { model_dir: folder, model: "tiny".into() }).await
}

#[tokio::test]
async fn a_folder_becomes_vectors_of_length_one() {
    let folder = folder();
    let model = load(folder.path().to_owned()).await.expect("a model");
    let requested = texts(&["a b", "c", "a b", "a b c d e f g h", "a b c d e f h h"]);
    let vectors = model.embed(&requested, soon()).await.expect("vectors");
    assert_eq!((model.dimension(), model.provider(), model.model()), (Some(8), "local", "tiny"));
    for vector in &vectors {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!(vector.len() == 8 && (length - 1.0).abs() < 1e-5, "{vector:?}");
    }
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    assert_ne!(vectors[3], vectors[4], "what is behind its window counts too");
    let late = model.embed(&requested, Instant::now()).await.expect_err("no time");
    assert!(late.is_retryable() && late.to_string().contains("`local` (model `tiny`)"), "{late}");
    assert!(matches!(model.embed(&texts(&[""]), soon()).await, Err(Error::Empty { .. })));
}

#[tokio::test]
async fn a_folder_that_is_no_model_says_what_is_wrong() {
    for (name, content, expected) in [
        ("config.json", None, "`config.json`"),
        ("tokenizer.json", Some("{}"), "`tokenizer.json`"),
        ("model.safetensors", Some("x"), "`model.safetensors`"),
        ("model.safetensors", None, "`model.safetensors`"),
        ("1_Pooling/config.json", Some("{}"), "only the mean"),
    ] {
        let folder = folder();
        let path = folder.path().join(name);
        match content {
            Some(content) => {
                fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                fs::write(path, content).expect("written");
            }
            None => fs::remove_file(path).expect("removed"),
        }
        let error = load(folder.path().to_owned()).await.map(drop).expect_err("no model").to_string();
        assert!(error.contains("`model_dir`") && error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_parts_of_a_long_text_count_for_as_much_as_they_have_of_it() {
    let folder = folder();
    let model = load(folder.path().to_owned()).await.expect("a model");
    assert_eq!(model.window(), Window::of_tokens(4), "of six, one stands before a text and one behind it");
    let requested = texts(&["a b c d", "e f", "a b c d e f"]);
    let vectors = model.embed(&requested, soon()).await.expect("vectors");
    let sum = |(one, other): (&f32, &f32)| one + other / 2.0;
    let mean: Vec<f32> = vectors[0].iter().zip(&vectors[1]).map(sum).collect();
    let length = mean.iter().map(|number| number * number).sum::<f32>().sqrt();
    for (found, expected) in vectors[2].iter().zip(&mean) {
        assert!((found - expected / length).abs() < 1e-5, "{found} {expected}");
    }
}
