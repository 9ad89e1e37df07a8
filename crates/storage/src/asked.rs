//! How both engines keep what an agent asks: one value, so that it can be packed.

use serde::{Deserialize, Serialize};
use skein_core::{
    model::{AskedTool, Permission, PermissionOption},
    ports::StoreError,
};

use crate::codec;

#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) tool_call: AskedTool,
    pub(crate) options: Vec<PermissionOption>,
}

pub(crate) fn pack(asked: &Permission) -> Result<Vec<u8>, StoreError> {
    let (tool_call, options) = (asked.tool_call.clone(), asked.options.clone());
    codec::pack_json("permission", &Asked { tool_call, options })
}
