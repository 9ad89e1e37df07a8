//! Refusals in the shape that the API gives them.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// `{"error": {"message", "type", "param", "code"}}` with its status.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    kind: &'static str,
    param: Option<String>,
    code: Option<String>,
}

impl ApiError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            kind: "invalid_request_error",
            param: None,
            code: None,
        }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn with_param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    pub(super) fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    pub(super) fn server(message: impl Into<String>) -> Self {
        let mut error = Self::invalid(message).with_code("server_error");
        error.kind = "server_error";
        error.with_status(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn unknown_response(id: &str) -> Self {
        Self::invalid(format!("Response with id '{id}' not found."))
            .with_status(StatusCode::NOT_FOUND)
    }

    pub(super) fn unknown_previous(id: &str) -> Self {
        Self::invalid(format!("Previous response with id '{id}' not found."))
            .with_param("previous_response_id")
            .with_code("previous_response_not_found")
    }

    fn body(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
