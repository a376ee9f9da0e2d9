//! A browser without scripts: it keeps cookies, follows redirects and submits forms.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use url::Url;

use super::WAIT;

/// The cookies of one person.
#[derive(Debug)]
pub struct Browser {
    http: reqwest::Client,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// The answer to one request.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub url: Url,
    /// Where it redirects to.
    pub target: Option<Url>,
    pub text: String,
}

impl Browser {
    pub fn new() -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(WAIT);
        let http = client.redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { http, cookies: Mutex::default() }
    }

    /// Requests `url` and follows no redirect.
    pub async fn get(&self, url: &str) -> Page {
        let url = Url::parse(url).expect("a URL");
        self.request(self.http.get(url.clone()), url).await
    }

    /// Submits the first form of `page` and follows no redirect. `typed` are the values of fields that a person fills in.
    pub async fn send(&self, page: &Page, typed: &[(&str, &str)]) -> Page {
        let form = page.text.split("<form").nth(1).unwrap_or_else(|| panic!("no form: {}", page.text));
        let form = form.split("</form>").next().expect("a form");
        let target = page.url.join(&attribute(form, "action").expect("an action")).expect("a URL");
        let inputs = form.split("<input").skip(1).filter(|input| input.contains("\"hidden\""));
        let hidden = inputs.filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)));
        let mut fields: Vec<(String, String)> = hidden.collect();
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let origin = page.url.origin().ascii_serialization();
        self.request(self.http.post(target.clone()).header(ORIGIN, origin).form(&fields), target).await
    }

    /// Opens `url`, and every page that it redirects to.
    pub async fn open(&self, url: &str) -> Page {
        self.follow(self.get(url).await, |_| true).await
    }

    /// Submits the first form of `page`, and opens every page that the answer redirects to.
    pub async fn submit(&self, page: &Page, typed: &[(&str, &str)]) -> Page {
        self.follow(self.send(page, typed).await, |_| true).await
    }

    /// Follows the redirects of `page` to targets that `is_followed` chooses.
    pub async fn follow(&self, mut page: Page, is_followed: impl Fn(&Url) -> bool) -> Page {
        for _ in 0..10 {
            let Some(target) = page.target.as_ref().filter(|target| is_followed(target)) else { return page };
            page = self.get(target.as_str()).await;
        }
        panic!("too many redirects: {page:?}")
    }

    async fn request(&self, request: reqwest::RequestBuilder, url: Url) -> Page {
        let response = request.header(COOKIE, self.cookies()).send().await.expect("an answer");
        for cookie in response.headers().get_all(SET_COOKIE) {
            let text = cookie.to_str().expect("ASCII");
            assert!(text.contains("; HttpOnly; SameSite="), "{text}");
            let (name, value) = text.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair");
            self.cookies.lock().expect("a lock").insert(name.to_owned(), value.to_owned());
        }
        let target = response.headers().get(LOCATION).map(|to| to.to_str().expect("ASCII"));
        let target = target.map(|to| url.join(to).expect("a URL"));
        let status = response.status().as_u16();
        Page { status, url, target, text: response.text().await.expect("a page") }
    }

    /// All cookies: only one gateway and one authorization server are visited.
    pub fn cookies(&self) -> String {
        let cookies = self.cookies.lock().expect("a lock");
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }
}

/// The value of an attribute, with the character references that the pages use.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?;
    let plain = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'");
    Some(plain.replace("&amp;", "&"))
}
