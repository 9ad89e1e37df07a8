//! JSON objects: with members that are known, and of the caller's own.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Number, Value};
use utoipa::ToSchema;

/// A value that stands as an object and nothing else. By itself serde also reads a struct from an array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Members<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Members)
            }
        }

        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

/// Free JSON. A key that stands twice in any of its objects is refused, since one of the values would be lost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
#[schema(value_type = Object)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object, A::Error> {
                read_map(map).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor)
    }
}

fn read_map<'de, A: MapAccess<'de>>(mut access: A) -> Result<Map<String, Value>, A::Error> {
    let mut map = Map::new();
    while let Some(key) = access.next_key::<String>()? {
        if map.contains_key(&key) {
            return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
        }
        let value = access.next_value_seed(Strict)?;
        map.insert(key, value);
    }
    Ok(map)
}

/// Reads any JSON value, its objects without duplicate keys.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        read_map(access).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn free_json_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,2.5,"x",null,true,{"b":{}}],"ü":"\u00e9"}"#;

        let object: Object = serde_json::from_str(text).unwrap();

        assert_eq!(
            Value::Object(object.0),
            json!({"a": [1, -2, 2.5, "x", null, true, {"b": {}}], "ü": "é"})
        );
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
            let refused = serde_json::from_str::<Object>(text).unwrap_err().to_string();

            assert!(refused.starts_with("duplicate field `a`"), "{refused}");
        }
    }
}
