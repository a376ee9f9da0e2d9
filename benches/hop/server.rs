//! The server at the end: one tool, answered as fast as hyper allows. Modern era only.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

type Body = Either<Full<Bytes>, http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}"#;
const LISTED: &str = r#"{"tools":[{"name":"echo","description":"gives the message back","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}"#;

/// Listens; the task serves until it is dropped.
pub async fn start() -> io::Result<(SocketAddr, impl Future<Output = ()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let task = async move {
        while let Ok((socket, _)) = listener.accept().await {
            let _ = socket.set_nodelay(true);
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service_fn(answer));
            tokio::spawn(connection);
        }
    };
    Ok((address, task))
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let Ok(call) = serde_json::from_slice::<Call<'_>>(&body) else { return Ok(status(400)) };
    let Some(id) = call.id else { return Ok(status(202)) };
    let message = call.params.and_then(|params| params.arguments).map(|arguments| arguments.message);
    let result = match (call.method, message) {
        ("server/discover", _) => DISCOVERED.to_owned(),
        ("tools/list", _) => LISTED.to_owned(),
        ("tools/call", Some(message)) => {
            format!(r#"{{"content":[{{"type":"text","text":{message}}}],"resultType":"complete"}}"#)
        }
        ("subscriptions/listen", _) => return Ok(listening(id)),
        _ => return Ok(status(404)),
    };
    Ok(json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
}

fn json(text: String) -> Response<Body> {
    with_type(Either::Left(Full::new(Bytes::from(text))), "application/json")
}

/// A stream of change notices that never brings one.
fn listening(id: &RawValue) -> Response<Body> {
    let acknowledged = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}},\"notifications\":{{}}}}}}\n\n"
    );
    let first = stream::iter([Ok(Frame::data(Bytes::from(acknowledged)))]);
    let body = StreamBody::new(first.chain(stream::pending()));
    with_type(Either::Right(BodyExt::boxed_unsync(body)), "text/event-stream")
}

fn status(code: u16) -> Response<Body> {
    let mut response = with_type(Either::Left(Full::default()), "text/plain");
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status");
    response
}

fn with_type(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
