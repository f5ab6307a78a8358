// Package chat is about conversations: their messages, tools and documents, the text that the chat template of a model
// makes of them, and which bytes of the text are whose.
//
// A chat template is a Jinja template that turns messages into the text that a model was trained on. Parse and
// Template.Render give the text that apply_chat_template of transformers gives, byte for byte, or an error where it has
// one. What chat templates have no use for is refused with an error: include, import and extends, autoescape, bytes,
// nested fields of str.format. A template that does not come to an end is stopped.
//
// # Whose bytes
//
// Rendered.Spans says of each byte of the text which message it is of, and what it comes from: its role, its content, a
// tool call, or mark-up that the template writes in its turn, whatever the template has done with it. Rendered.Trained
// makes of this what a trainer needs, the text that the assistant writes with the end of its turns, for any template,
// with {% generation %} or without. Rendered.OpenEnd is the end of the last one where the template leaves it out.
//
// What no byte comes from is known, too: Rendered.Unrendered lists the contents, reasoning, tool calls, keys, tools and
// documents that the template has left out. Rendered.EmptyReasoning finds the empty blocks of reasoning that it has put
// in.
//
// What a tokenizer has to know: a special token is one only where Rendered.IsMarkup holds for its bytes, which is in
// some of Rendered.Chunks, so that what somebody writes never becomes mark-up; and a token is trained if one of its
// bytes is, as in transformers.
//
// Data sets and APIs write the same conversation in several forms. Template.Forms finds those that a template takes, and
// Forms.Convert makes them of another.
package chat
