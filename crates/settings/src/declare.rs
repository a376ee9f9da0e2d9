//! Declares settings: one field with its text, type, default and range is all that a setting needs.
//!
//! From the fields, [`settings!`](crate::settings) makes a struct, its `Default` and its reader. It also makes the
//! descriptions for the schema and the pages of the documentation. [`words!`](crate::words) declares a setting that is one
//! of a few words. The type of a field decides how it is read ([`FromSetting`], [`InRange`]).
//!
//! Invariant: every field is read before the first invalid one makes the value unusable, so that all problems are
//! reported. Checks of several settings together are ordinary functions, named after `check`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use crate::Setting;

/// The text of a value as the default of a setting, on a page of the documentation.
pub trait DefaultText {
    /// Returns the text; `none` for a value that is not written.
    fn default_text(&self) -> String {
        "none".to_owned()
    }
}

/// A value that is read by its type alone.
pub trait FromSetting: DefaultText + Sized {
    /// Reads the value. Reports an invalid one and returns `None`.
    fn from_setting(setting: &Setting<'_>) -> Option<Self>;
}

/// A number or a time within a range.
pub trait InRange: DefaultText + Sized {
    /// The type of the least and the greatest value.
    type Bound;
    /// Reads the value. Reports an invalid one and returns `None`.
    fn in_range(setting: &Setting<'_>, range: RangeInclusive<Self::Bound>) -> Option<Self>;
}

/// Implements [`DefaultText`], and one of the readers for a type that [`Setting`] reads.
macro_rules! read {
    ($($type:ty: $setting:ident => $read:expr, $text:expr;)*) => { $(
        impl FromSetting for $type {
            fn from_setting($setting: &Setting<'_>) -> Option<Self> {
                $read
            }
        }

        impl DefaultText for $type {
            fn default_text(&self) -> String {
                let text: fn(&Self) -> String = $text;
                text(self)
            }
        }
    )* };
    (in $($type:ty)*) => { $(
        impl InRange for $type {
            type Bound = Self;

            fn in_range(setting: &Setting<'_>, range: RangeInclusive<Self>) -> Option<Self> {
                setting.integer(range)
            }
        }

        impl DefaultText for $type {
            fn default_text(&self) -> String {
                self.to_string()
            }
        }
    )* };
}

read! {
    bool: setting => setting.boolean(), |value| format!("`{value}`");
    String: setting => setting.text().map(str::to_owned), |text| format!("`{text}`");
    SecretString: setting => setting.secret(), |_| "none".to_owned();
    PathBuf: setting => setting.file_path(), |path| format!("`{}`", path.display());
    Url: setting => setting.url(), |url| format!("`{url}`");
}
read! { in u32 u64 usize }

impl InRange for Duration {
    type Bound = f64;

    fn in_range(setting: &Setting<'_>, range: RangeInclusive<f64>) -> Option<Self> {
        setting.seconds(range)
    }
}

impl DefaultText for Duration {
    fn default_text(&self) -> String {
        self.as_secs_f64().to_string()
    }
}

impl<T: DefaultText> DefaultText for Option<T> {
    fn default_text(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::default_text)
    }
}

impl<T: FromSetting> FromSetting for Option<T> {
    fn from_setting(setting: &Setting<'_>) -> Option<Self> {
        T::from_setting(setting).map(Some)
    }
}

impl<T: InRange> InRange for Option<T> {
    type Bound = T::Bound;

    fn in_range(setting: &Setting<'_>, range: RangeInclusive<T::Bound>) -> Option<Self> {
        T::in_range(setting, range).map(Some)
    }
}

impl<T> DefaultText for Vec<T> {}

/// An element that is not valid is reported and left out.
impl<T: FromSetting> FromSetting for Vec<T> {
    fn from_setting(setting: &Setting<'_>) -> Option<Self> {
        Some(setting.list()?.iter().filter_map(T::from_setting).collect())
    }
}

impl<T> DefaultText for BTreeMap<String, T> {}

/// A value that is not valid is reported and left out.
impl<T: FromSetting> FromSetting for BTreeMap<String, T> {
    fn from_setting(setting: &Setting<'_>) -> Option<Self> {
        let entry = |(name, value): &(&str, Setting<'_>)| Some(((*name).to_owned(), T::from_setting(value)?));
        Some(setting.entries()?.iter().filter_map(entry).collect())
    }
}

/// Declares the settings of one mapping. See the [crate] for an example.
///
/// A field is `/// text`, `name: Type`, and then in this order, all optional:
/// - `as "key"` after the name, if the key in the file differs from it;
/// - `= value`, the default, if it is not that of the type;
/// - `=> "text"`, the default on pages, if it is not plain from the value;
/// - `, required "hint"`: a missing value is a problem. Such a struct has no `Default`;
/// - `, in a..=b`: the range of a number, or of a time in seconds;
/// - `, with function`: reads what the type alone does not say, from a [`Setting`](crate::Setting) to an `Option`.
///
/// Further parts follow the fields, in this order, all optional:
/// - `flat { … }`: structs whose settings are in the same mapping;
/// - `other { … }`: fields that are no settings;
/// - `foreign KEYS;`: the keys of other programs with their hints;
/// - `check function;`: gets the value and its setting when all is read.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field_vis:vis $field:ident $(as $key:literal)? : $type:ty
                $(= $default:expr)? $(=> $shown:literal)?
                $(, required $hint:expr)? $(, in $range:expr)? $(, with $read:expr)? ;
            )*
        }
        $(flat { $( $(#[$flat_meta:meta])* $flat_vis:vis $flat:ident : $flat_type:ty; )* })?
        $(other { $( $(#[$other_meta:meta])* $other_vis:vis $other:ident : $other_type:ty; )* })?
        $(foreign $foreign:expr;)?
        $(check $check:expr;)?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[doc = $doc])* $field_vis $field: $type, )*
            $($( $(#[$flat_meta])* $flat_vis $flat: $flat_type, )*)?
            $($( $(#[$other_meta])* $other_vis $other: $other_type, )*)?
        }

        $crate::settings! { @default_of $name [$($($hint)?)*] {
            $($field: $crate::settings!(@default $type $(, $default)?),)*
            $($($flat: <$flat_type>::default(),)*)?
            $($($other: <$other_type>::default(),)*)?
        } }

        impl $name {
            /// Reads its settings from a mapping that may have others. Reports every problem, and returns `None` if a
            /// required setting is missing or invalid.
            $vis fn from_fields(fields: &mut $crate::Fields<'_>) -> Option<Self> {
                $(
                    let key = $crate::settings!(@key $field $($key)?);
                    fields.describe(
                        key,
                        concat!($($doc, "\n"),*),
                        || $crate::settings!(
                            @shown $type; $($default)?; $($shown)?; $(required $hint)? $(with $read)?
                        ),
                    );
                    let found = $crate::settings!(@take fields, key $(, $hint)?);
                    let $field: Option<$type> = found.and_then(|setting| {
                        $crate::settings!(@read &setting, $type $(, in $range)? $(, with $read)?)
                    });
                )*
                $($( let $flat = <$flat_type>::from_fields(fields); )*)?
                $( fields.refuse_foreign($foreign); )?
                #[allow(unused_mut)]
                let mut read = Self {
                    $( $field: $crate::settings!(@or_default $field, $type $(, required $hint)? $(, $default)?), )*
                    $($( $flat: $flat?, )*)?
                    $($( $other: <$other_type>::default(), )*)?
                };
                $( $check(&mut read, fields.setting()); )?
                Some(read)
            }
        }

        impl $crate::FromSetting for $name {
            fn from_setting(setting: &$crate::Setting<'_>) -> Option<Self> {
                let mut fields = setting.fields()?;
                let read = Self::from_fields(&mut fields);
                fields.finish();
                read
            }
        }

        impl $crate::DefaultText for $name {}
    };
    (@default_of $name:ident [] $fields:tt) => {
        impl Default for $name {
            fn default() -> Self {
                Self $fields
            }
        }
    };
    (@default_of $name:ident [$($required:expr)+] $fields:tt) => {};
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@default $type:ty) => { <$type>::default() };
    (@default $type:ty, $default:expr) => { $default };
    (@shown $type:ty; $($default:expr)?; $shown:literal; $($how:tt)*) => { $shown.to_owned() };
    (@shown $type:ty; $($default:expr)?;; $($how:tt)+) => { $crate::settings!(@how $($how)+) };
    (@shown $type:ty; $($default:expr)?;;) => {
        <$type as $crate::DefaultText>::default_text(&$crate::settings!(@default $type $(, $default)?))
    };
    (@how required $($rest:tt)*) => { "required".to_owned() };
    (@how with $($rest:tt)*) => { "none".to_owned() };
    (@take $fields:ident, $key:ident) => { $fields.take($key) };
    (@take $fields:ident, $key:ident, $hint:expr) => { $fields.require($key, $hint) };
    (@read $setting:expr, $type:ty) => { <$type as $crate::FromSetting>::from_setting($setting) };
    (@read $setting:expr, $type:ty, in $range:expr) => {
        <$type as $crate::InRange>::in_range($setting, $range)
    };
    (@read $setting:expr, $type:ty, with $read:expr) => { $read($setting).map(Into::into) };
    (@or_default $field:ident, $type:ty, required $hint:expr) => { $field? };
    (@or_default $field:ident, $type:ty $(, $default:expr)?) => {
        $field.unwrap_or_else(|| $crate::settings!(@default $type $(, $default)?))
    };
}

/// Declares a setting that is one of a few words: an enum of its values, each with the word in the file.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $( $(#[$value_meta:meta])* $value:ident = $word:literal, )* }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $( $(#[$value_meta])* $value, )*
        }

        #[allow(dead_code, reason = "not every setting needs both")]
        impl $name {
            /// The words in the configuration file, and their values.
            $vis const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),*];

            /// The word in the configuration file.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$value => $word, )*
                }
            }
        }

        impl $crate::FromSetting for $name {
            fn from_setting(setting: &$crate::Setting<'_>) -> Option<Self> {
                setting.choice(Self::WORDS)
            }
        }

        impl $crate::DefaultText for $name {
            fn default_text(&self) -> String {
                format!("`{}`", self.as_str())
            }
        }
    };
}
