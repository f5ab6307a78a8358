package chat

// Source is the origin of a byte of the rendered text.
type Source uint8

// Markup is the template's own text; everything else was given to it.
const (
	Markup    Source = iota // text of the template
	Variable                // a variable that is not part of the conversation, such as bos_token
	Role                    // a message's role
	Content                 // a message's content, as a string or in parts
	Reasoning               // a message's reasoning_content, reasoning or thinking
	ToolCalls               // a message's tool_calls
	Field                   // any other key of a message: name, tool_call_id, …
	Tools                   // the list of tools
	Documents               // the list of documents
)

var sourceNames = [...]string{"markup", "variable", "role", "content", "reasoning", "tool_calls", "field", "tools", "documents"}

// String is the name of the source in lower case, such as "content".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "invalid source"
}

// isFrame reports whether the bytes are the frame of a turn rather than somebody's words.
func (s Source) isFrame() bool { return s == Markup || s == Variable || s == Role }

// sourceOf is the source of the bytes of a message's key.
func sourceOf(key string) Source {
	switch key {
	case "role", "name":
		return Role
	case "content":
		return Content
	case "reasoning_content", "thinking", "reasoning":
		return Reasoning
	case "tool_calls":
		return ToolCalls
	}
	return Field
}
