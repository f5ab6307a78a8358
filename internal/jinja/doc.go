// Package jinja renders Jinja templates as transformers renders chat templates, byte for byte, and records the origin
// of each byte. It knows nothing of conversations: llm/chat supplies the variables and interprets the origins.
//
// The language is Jinja 2 with the settings of transformers (trim_blocks, lstrip_blocks, break and continue, the
// generation tag, raise_exception, strftime_now, its own tojson, the sandbox), over Python values: dicts keep their
// order, strings are sequences of code points, numbers print as repr does. Features that chat templates do not need are
// errors: include, import and extends, autoescape, bytes (str.encode), \N escapes, nested fields of str.format.
//
// A template from the network is an untrusted program. Its size and nesting, and the steps, texts and numbers of a
// rendering are limited (limits.go), so that it always terminates, with an error where Python would continue. Errors
// name the template and the line; nothing panics.
//
// A string carries the [Origin] of its bytes through all operations of a template: concatenation, slices, split and
// join, replace, upper, tojson. If a result is computed from a string as a whole, all of it has the origin of the first
// byte.
package jinja
