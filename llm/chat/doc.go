// Package chat renders conversations with the chat templates of models, and says which bytes of the text are whose.
//
// A chat template is a Jinja2 template that turns messages into the text that a model was trained on. Parse and
// Template.Render give the text that apply_chat_template of transformers gives, byte for byte, or an error where it has
// one. The language is Jinja's with the settings of transformers (trim_blocks, lstrip_blocks, break and continue, the
// generation tag, raise_exception, strftime_now, its own tojson, the sandbox), over values of Python's: dictionaries
// keep their order, strings are sequences of code points, numbers print as repr does. What a chat template has no use
// for is refused with an error: include, import and extends, autoescape, bytes. A template that does not come to an end
// is stopped.
//
// # Whose bytes
//
// Strings carry the origin of their bytes through everything that templates do with them: concatenation, slices,
// split and join, replace, upper, tojson. So Rendered.Spans says of each byte of the text which message it is of, and
// what it comes from: its role, its content, a tool call, or mark-up that the template writes in its turn. Rendered.Trained
// makes of this what a trainer needs, the text that the assistant writes with the end of its turns, for any template,
// with {% generation %} or without.
//
// What no byte comes from is known, too: Rendered.Unrendered lists the contents, reasoning, tool calls, keys, tools and
// documents that the template has left out. Rendered.EmptyReasoning finds the empty block of reasoning that it has put in.
//
// What a tokenizer has to know: a special token is one only where Rendered.IsMarkup holds for its bytes, which is in
// some of Rendered.Chunks, so that what somebody writes never becomes mark-up; and a token is trained if one of its
// bytes is, as in transformers.
//
// The package is pure Go and imports nothing of this module.
package chat
