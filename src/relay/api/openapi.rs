//! `/openapi.json`, generated from the handlers and the wire types.

use axum::Json;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use crate::protocol::error::ErrorBody;

/// The name of the only way to be let in.
const KEY: &str = "key";

#[derive(OpenApi)]
#[openapi(
    info(title = "pullhook relay", description = "Webhooks on localhost, pulled."),
    components(schemas(ErrorBody)),
    modifiers(&Everywhere),
    paths(
        crate::relay::ingress::take,
        crate::relay::health::alive,
        crate::relay::health::ready,
        document,
        super::environment::show,
        super::listeners::open,
        super::listeners::poll,
        super::listeners::close,
        super::listeners::list,
        super::listeners::show,
        super::events::list,
        super::events::show,
        super::events::create,
        super::events::test,
        super::replay::replay,
        super::sources::list,
        super::sources::create,
        super::sources::show,
        super::sources::update,
        super::sources::delete,
        super::sources::rotate,
        super::sources::sign,
    )
)]
struct Document;

/// What holds for every route, said once.
struct Everywhere;

impl Modify for Everywhere {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        if let Some(components) = &mut document.components {
            let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
            components.add_security_scheme(KEY, SecurityScheme::Http(bearer));
        }
        for (path, item) in &mut document.paths.paths {
            let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
            operations.into_iter().flatten().for_each(|operation| complete(path, operation));
        }
    }
}

/// An id that no other route has, the key that `/v1` needs, and how any request may fail.
fn complete(path: &str, operation: &mut Operation) {
    let (inside, outside) = (path.strip_prefix("/v1/"), path.trim_start_matches('/'));
    let resource = inside.unwrap_or(outside).split('/').next().unwrap_or_default();
    operation.operation_id = operation.operation_id.as_ref().map(|name| format!("{resource}_{name}"));
    if inside.is_some() {
        operation.security = Some(vec![SecurityRequirement::new(KEY, Vec::<String>::new())]);
    }
    let error = Content::new(Some(Ref::from_schema_name("ErrorBody")));
    let error = ResponseBuilder::new().description("It failed, and why").content("application/json", error);
    operation.responses.responses.insert("default".to_owned(), RefOr::T(error.build()));
}

/// The document itself.
pub(in crate::relay) fn openapi() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// This API, as OpenAPI.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}
