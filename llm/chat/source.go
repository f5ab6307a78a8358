package chat

// Source is the origin of a byte of the rendered text.
type Source uint8

// Markup is the template's own text; all other sources are its input.
const (
	Markup    Source = iota // the template's own text
	Variable                // variable outside the conversation, such as bos_token
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

// isFrame reports whether the bytes frame a turn: mark-up, variables and roles rather than words.
func (s Source) isFrame() bool { return s == Markup || s == Variable || s == Role }

// sourceOf returns the source of a message key's bytes.
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
