// Package chat represents conversations (messages, tools and documents), renders them with a model's chat template, and
// records the source of each byte of the text.
//
// A chat template is a Jinja template that turns messages into the text format that a model was trained on. Parse and
// Template.Render return the same bytes as apply_chat_template of transformers, or an error where transformers fails.
// Features that chat templates do not need are errors: include, import and extends, autoescape, bytes, nested fields of
// str.format. A template that does not terminate is stopped.
//
// # Sources of bytes
//
// Rendered.Spans gives for each byte of the text its message and its source: the role, the content, a tool call, or
// mark-up that the template writes in the message's turn. It holds whatever filters and methods the template applies.
// Rendered.Trained derives the bytes to train from it, the assistant's text and the ends of its turns, for any
// template, with {% generation %} or without. Rendered.OpenEnd is the token that ends the last turn if the template
// omits it.
//
// Rendered.Unrendered lists what the template omits: contents, reasoning, tool calls, keys, tools and documents.
// Rendered.EmptyReasoning finds the empty reasoning blocks that it inserts.
//
// Tokenizers follow two rules. Text is parsed for special tokens only where Rendered.IsMarkup holds (see
// Rendered.Chunks), so that a message's words never become mark-up. A token is trained if any of its bytes is, as in
// transformers.
//
// Data sets and APIs write the same conversation in several forms. Template.Forms finds the forms that a template
// accepts, and Forms.Convert converts a conversation to them.
//
// # Answers
//
// Template.AnswerForm finds how a model that was trained with the template writes reasoning and tool calls: as JSON, with the
// name in mark-up, with mark-up around each parameter, or in a notation of its own. AnswerForm.NewReader reads the parts of
// an answer while it is generated, and Answer.Message continues the conversation with them.
package chat
