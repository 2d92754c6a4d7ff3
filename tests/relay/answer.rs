//! An answer of the relay, with what holds for every one of them.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use pullhook::protocol::error::Code;
use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    /// Checks what every answer has, whatever was asked.
    #[track_caller]
    pub fn new(status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Self {
        let answer = Self { status, headers, bytes };
        assert!(answer.request_id().starts_with("req_"), "no request id: {answer:?}");
        assert!(
            !answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")),
            "{answer:?}"
        );
        if !answer.bytes.is_empty() {
            assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
        }
        answer
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {:?}", self.bytes))
    }

    /// A header's value; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn request_id(&self) -> &str {
        self.header("x-request-id")
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }

    /// A webhook was taken in; its event's id.
    #[track_caller]
    pub fn accepted(self) -> String {
        self.expect(202)["event_id"].as_str().unwrap().to_owned()
    }

    /// It failed with this code, as the table of codes has it; the error.
    #[track_caller]
    pub fn refused(&self, code: Code) -> Value {
        let error = self.json()["error"].clone();
        assert_eq!(
            (&error["code"], self.status.as_u16()),
            (&Value::from(code.text()), code.status()),
            "{error}"
        );
        assert_eq!(error["type"], code.kind());
        assert_eq!(error["request_id"], self.request_id());
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        assert!(error.as_object().unwrap().values().all(|value| !value.is_null()), "{error}");
        error
    }

    /// It failed for this field alone: 400, named as `param` and among `issues`.
    #[track_caller]
    pub fn wrong_field(&self, path: &str) {
        let error = self.refused(Code::InvalidRequest);
        let paths: Vec<&str> =
            error["issues"].as_array().unwrap().iter().map(|issue| issue["path"].as_str().unwrap()).collect();
        assert_eq!((paths, &error["param"]), (vec![path], &Value::from(path)), "{error}");
        assert!(!error["issues"][0]["message"].as_str().unwrap().is_empty());
    }
}
