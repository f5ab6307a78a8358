package data

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// knownRoles maps the roles of messages to roles that templates know.
var knownRoles = map[string]string{
	"system": "system", "developer": "developer",
	"user": "user", "human": "user", "prompter": "user",
	"assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "bard": "assistant", "bing": "assistant", "model": "assistant",
	"tool": "tool", "observation": "tool", "tool_response": "tool", "function_response": "tool",
	"function": "function", "ipython": "ipython",
	"function_call": toolCall, "tool_call": toolCall,
}

// toolCall is not a template's role: such a message is the assistant's, with a tool call in JSON as
// its content.
const toolCall = "tool call"

// messages reads a list of messages; name is its key, for errors.
func (p *parser) messages(name string, value []byte) ([]chat.Message, *fault) {
	if value[0] != '[' {
		return nil, faultf(WrongType, "", "%q is %s where a list of messages is expected", name, typeOf(value))
	}
	items, _ := scanList(value) // validated before
	if len(items) == 0 {
		return nil, faultf(Empty, "remove the record", "%q has no message", name)
	}
	messages := make([]chat.Message, len(items))
	for i, item := range items {
		m := &messageParser{p: p, name: fmt.Sprintf("%s[%d]", name, i)}
		if item[0] != '{' {
			return nil, faultf(WrongType, "", "%s is %s where a message is expected", m.name, typeOf(item))
		}
		if f := m.parse(item); f != nil {
			return nil, f
		}
		messages[i] = m.message
	}
	return messages, nil
}

// A messageParser reads one message.
type messageParser struct {
	p       *parser
	name    string // for errors
	message chat.Message
	role    string // role for templates, or toolCall
	content []byte
	calls   bool // the message has tool calls
	weight  float64
}

// sharedNames maps the keys of ShareGPT to the keys of messages.
var sharedNames = map[string]string{"from": "role", "value": "content"}

func (m *messageParser) parse(data []byte) *fault {
	members, _ := scanObject(data) // validated before
	m.weight = 1
	for i, member := range members {
		members[i].key = m.key(member.key)
		if members[i].key == "role" {
			if f := m.setRole(member.value); f != nil {
				return f
			}
		}
	}
	if m.role == "" {
		return m.fault(MissingKey, sayName, "has no %q", m.p.name("role")).by("Keys", "role", m.unknownKey(members))
	}
	for _, member := range members {
		if f := m.set(member); f != nil {
			return f
		}
	}
	if m.content == nil && !m.calls {
		return m.fault(MissingKey, sayName, "has no %q", m.p.name("content")).by("Keys", "content", m.unknownKey(members))
	}
	m.message.Weight = m.weight
	return nil
}

// unknownKey returns the only unknown key of a message; "" if there is not exactly one.
func (m *messageParser) unknownKey(members []member) string {
	known := []string{"role", "content", "name", "tool_calls", "tool_call_id", "weight", "train", "reasoning_content"}
	var unknown []string
	for _, member := range members {
		if !slices.Contains(known, member.key) {
			unknown = append(unknown, member.key)
		}
	}
	return only(unknown)
}

// key returns the key that a name in the data stands for.
func (m *messageParser) key(name string) string {
	if key, ok := m.p.known[name]; ok && slices.Contains([]string{"role", "content", "from", "value"}, key) {
		name = key
	}
	if key, ok := sharedNames[name]; ok {
		return key
	}
	return name
}

func (m *messageParser) fault(kind Kind, remedy, format string, args ...any) *fault {
	return faultf(kind, remedy, "%s "+format, append([]any{m.name}, args...)...)
}

func (m *messageParser) setRole(value []byte) *fault {
	if value[0] != '"' {
		return m.fault(WrongType, "write it in quotes", "has a role that is %s where a string is expected", typeOf(value))
	}
	given := stringOf(value)
	role, ok := m.p.roles[given]
	if !ok {
		roles := slices.Sorted(maps.Keys(m.p.roles))
		return m.fault(WrongRole, "known roles are "+strings.Join(roles, ", ")+"; say which of them this name means", "has the role %q", given).by("Roles", given, "assistant")
	}
	m.role = role
	return nil
}

func (m *messageParser) set(member member) *fault {
	value := member.value
	switch member.key {
	case "role":
		role := m.role
		if role == toolCall {
			role = "assistant"
		}
		m.message.SetText("role", role)
		return nil
	case "content":
		m.content = value
		if m.role == toolCall {
			return m.contentCalls()
		}
		if f := m.checkContent(); f != nil {
			return f
		}
	case "tool_calls":
		items, f := m.checkCalls(value)
		if f != nil {
			return f
		}
		m.calls = len(items) > 0
	case "function_call": // name of tool_calls in OpenAI's earlier API
		if m.role != "assistant" || m.calls {
			break
		}
		calls := slices.Concat([]byte("["), value, []byte("]"))
		if _, f := m.checkCalls(calls); f != nil {
			return f
		}
		m.calls = true
		return m.store("tool_calls", wrapFunctions(calls))
	case "weight":
		weight, err := strconv.ParseFloat(string(value), 64)
		if err != nil || weight < 0 {
			return m.fault(BadWeight, "it must be a number of 0 or more", "has the weight %s", value)
		}
		m.weight *= weight
		return nil
	case "train":
		if string(value) != "true" && string(value) != "false" {
			return m.fault(BadWeight, "it must be true or false", "has %s for train", value)
		}
		if string(value) == "false" {
			m.weight = 0
		}
		return nil
	}
	return m.store(member.key, value)
}

// store sets a key of the message to a validated value.
func (m *messageParser) store(key string, value []byte) *fault {
	if value[0] == '"' {
		m.message.SetText(key, stringOf(value))
	} else if err := m.message.Set(key, value); err != nil {
		return m.fault(WrongType, "", "has an invalid value: %v", err)
	}
	return nil
}

// checkContent checks that the content is a text, or a list of parts that are texts. A tool's result
// may also be an object.
func (m *messageParser) checkContent() *fault {
	switch m.content[0] {
	case '"':
		return nil
	case '[':
		items, _ := scanList(m.content)
		for i, item := range items {
			if f := m.checkPart(i, item); f != nil {
				return f
			}
		}
		return nil
	case '{':
		if m.role == "tool" || m.role == "function" || m.role == "ipython" {
			return nil
		}
	}
	return m.fault(WrongType, "write it in quotes", "has a content that is %s where a string is expected", typeOf(m.content))
}

func (m *messageParser) checkPart(i int, item []byte) *fault {
	if item[0] != '{' {
		return m.fault(WrongType, `a part is {"type": "text", "text": "…"}`, "has the part %d of its content as %s", i, typeOf(item))
	}
	members, _ := scanObject(item)
	kind, text := "", false
	for _, member := range members {
		switch {
		case member.key == "type" && member.value[0] == '"':
			kind = stringOf(member.value)
		case member.key == "text" && member.value[0] == '"':
			text = true
		}
	}
	if kind != "text" || !text {
		return m.fault(WrongType, `only text can be trained: a part is {"type": "text", "text": "…"}`, "has the part %d of its content with the type %q", i, kind)
	}
	return nil
}

// contentCalls converts a content that is a tool call, or a list of them, to tool_calls.
func (m *messageParser) contentCalls() *fault {
	calls := m.content
	if calls[0] == '"' {
		calls = bytes.TrimSpace([]byte(stringOf(calls)))
		s := &jsonScanner{data: calls}
		_, f := s.value()
		if f == nil {
			f = s.end()
		}
		if f != nil {
			return m.fault(BadToolCall, `it is {"name": "…", "arguments": {…}}`, "has a tool call that is not JSON: %s", f.reason)
		}
	}
	if calls[0] != '[' {
		calls = slices.Concat([]byte("["), calls, []byte("]"))
	}
	if _, f := m.checkCalls(calls); f != nil {
		return f
	}
	m.calls = true
	m.message.SetText("content", "")
	return m.store("tool_calls", wrapFunctions(calls))
}

// wrapFunctions wraps bare functions in a validated list of tools or tool calls, as templates expect
// them: ShareGPT data has them bare.
func wrapFunctions(list []byte) []byte {
	items, _ := scanList(list)
	var b bytes.Buffer
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		members, _ := scanObject(item)
		if slices.ContainsFunc(members, func(m member) bool { return m.key == "function" }) {
			b.Write(item)
		} else {
			fmt.Fprintf(&b, `{"type": "function", "function": %s}`, item)
		}
	}
	b.WriteByte(']')
	return b.Bytes()
}

// checkCalls checks a list of tool calls, each {"function": {"name": …, "arguments": …}} or only the
// inner object.
func (m *messageParser) checkCalls(value []byte) ([][]byte, *fault) {
	if value[0] != '[' {
		return nil, m.fault(BadToolCall, "", "has tool_calls as %s where a list is expected", typeOf(value))
	}
	items, _ := scanList(value)
	for i, item := range items {
		if f := m.checkCall(i, item); f != nil {
			return nil, f
		}
	}
	return items, nil
}

func (m *messageParser) checkCall(i int, call []byte) *fault {
	const form = `it is {"function": {"name": "…", "arguments": {…}}}`
	fail := func(format string, args ...any) *fault {
		return m.fault(BadToolCall, form, "has the tool call %d %s", i, fmt.Sprintf(format, args...))
	}
	function := call
	var name, arguments []byte
	for function != nil {
		if function[0] != '{' {
			return fail("as %s", typeOf(function))
		}
		members, _ := scanObject(function)
		function = nil
		for _, member := range members {
			switch member.key {
			case "function":
				function = member.value
			case "name":
				name = member.value
			case "arguments":
				arguments = member.value
			}
		}
	}
	switch {
	case name == nil || name[0] != '"' || stringOf(name) == "":
		return fail("without a name")
	case arguments == nil || arguments[0] == '{':
		return nil
	case arguments[0] != '"':
		return fail("with arguments that are %s", typeOf(arguments))
	}
	text := strings.TrimSpace(stringOf(arguments))
	if text == "" {
		return nil
	}
	if _, f := scanObject([]byte(text)); f != nil {
		return fail("with arguments that are not JSON: %s", f.reason)
	}
	return nil
}
