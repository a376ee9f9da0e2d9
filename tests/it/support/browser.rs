//! A browser without scripts: it keeps cookies, follows redirects and submits forms.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use url::Url;

use super::PATIENCE;

/// The cookies of one person.
#[derive(Debug)]
pub struct Browser {
    http: reqwest::Client,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// A page that a browser shows.
#[derive(Debug)]
pub struct Shown {
    pub status: u16,
    pub url: Url,
    pub text: String,
}

impl Browser {
    pub fn new() -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
        let http = client.redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { http, cookies: Mutex::default() }
    }

    /// Opens `url`, and every page that it redirects to.
    pub async fn open(&self, url: &str) -> Shown {
        let url = Url::parse(url).expect("a URL");
        self.follow(self.http.get(url.clone()), url).await
    }

    /// Submits the first form of `page`. `typed` are the values of fields that a person fills in.
    pub async fn submit(&self, page: &Shown, typed: &[(&str, &str)]) -> Shown {
        let form = page.text.split("<form").nth(1).unwrap_or_else(|| panic!("no form: {}", page.text));
        let form = form.split("</form>").next().expect("a form");
        let target = page.url.join(&attribute(form, "action").expect("an action")).expect("a URL");
        let inputs = form.split("<input").skip(1).filter(|input| input.contains("\"hidden\""));
        let hidden = inputs.filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)));
        let mut fields: Vec<(String, String)> = hidden.collect();
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let origin = page.url.origin().ascii_serialization();
        let request = self.http.post(target.clone()).header(ORIGIN, origin).form(&fields);
        self.follow(request, target).await
    }

    async fn follow(&self, request: reqwest::RequestBuilder, url: Url) -> Shown {
        let (mut request, mut url) = (request, url);
        for _ in 0..10 {
            let response = request.header(COOKIE, self.cookies()).send().await.expect("an answer");
            for cookie in response.headers().get_all(SET_COOKIE) {
                let pair = cookie.to_str().expect("ASCII").split(';').next().expect("a pair");
                let (name, value) = pair.split_once('=').expect("a cookie");
                self.cookies.lock().expect("a lock").insert(name.to_owned(), value.to_owned());
            }
            let target = response.headers().get(LOCATION).map(|to| to.to_str().expect("ASCII").to_owned());
            let status = response.status().as_u16();
            let Some(target) = target else {
                return Shown { status, url, text: response.text().await.expect("a page") };
            };
            url = url.join(&target).expect("a URL");
            request = self.http.get(url.clone());
        }
        panic!("too many redirects: {url}")
    }

    /// All cookies: only one gateway and one authorization server are visited.
    fn cookies(&self) -> String {
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
