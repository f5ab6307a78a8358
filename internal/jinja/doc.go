// Package jinja evaluates Jinja templates as transformers renders chat templates, byte for byte, and says where each
// byte comes from. It knows nothing of conversations: llm/chat gives the names that templates use their values, and the
// origins of bytes their meaning.
//
// The language is Jinja 2 with the settings of transformers (trim_blocks, lstrip_blocks, break and continue, the
// generation tag, raise_exception, strftime_now, its own tojson, the sandbox), over Python's values: dictionaries keep
// their order, strings are sequences of code points, numbers print as repr does. What chat templates have no use for is
// refused with an error: include, import and extends, autoescape, bytes (str.encode), \N escapes, nested fields of
// str.format.
//
// A template from the network is a program. Its size, its nesting, and the steps, texts and numbers of a rendering are
// limited (limits.go), so that it comes to an end, with an error where Python would go on. Errors name the template and
// the line; nothing panics.
//
// A string carries the [Origin] of its bytes through everything that a template does with it: concatenation, slices,
// split and join, replace, upper, tojson. A result that is computed from a string as a whole has the origin of its first
// byte.
package jinja
