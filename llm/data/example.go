package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// Format is the format of a record, determined by its keys.
type Format string

// Formats, with their keys.
const (
	Messages     Format = "messages"      // messages with role and content; system, tools, documents
	ShareGPT     Format = "conversations" // conversations with from and value; system, tools
	Completion   Format = "prompt"        // prompt and completion, both texts or both lists of messages; system, tools
	Instructions Format = "instruction"   // Alpaca: instruction, input (optional) and output; system
	Text         Format = "text"          // text
)

// formats lists the formats in the order in which they are tried. Further keys of a record do not
// matter.
var formats = []struct {
	format Format
	keys   []string
}{
	{Messages, []string{"messages"}},
	{ShareGPT, []string{"conversations"}},
	{Completion, []string{"prompt", "completion"}},
	{Instructions, []string{"instruction", "output"}},
	{Text, []string{"text"}},
}

// otherKeys are the other keys that a record or message can have.
var otherKeys = []string{"chosen", "rejected", "label", "teacher", "input", "system", "tools", "documents", "reasoning_content", "role", "content", "from", "value"}

// Example is one record of a data set. It is a text, a conversation, or a prompt with its completion.
// The last is a conversation too: whether a chat template exists decides which form is used.
type Example struct {
	File   string
	Source int // index of the file among those that are read
	Line   int // from 1; row of a Parquet file
	Format Format

	Text               string
	Prompt, Completion string

	chat.Conversation
	PromptMessages int // number of initial messages that belong to the prompt and are not trained

	// Rejected is the other answer of a pair, with the same prompt; nil for other records. The pair has the format of
	// its sides, Completion.
	Rejected *Example
	Label    Label  // of the answer, if labels are read
	Teacher  string // that the record names, if teachers are read; "" for the first

	mismatched *Example // the prompt with the answer of another example
	unused     []string // keys of the record that are ignored
	notes      []Note   // notes of an inspection
	ownSystem  bool     // the first message comes from the key "system"
	p          *parser  // for the data's names of keys; may be nil
}

// HasText reports whether the example is a text, or a prompt with its completion as texts, and so
// needs no chat template.
func (x *Example) HasText() bool {
	return x.Format == Text || x.Format == Instructions || x.Format == Completion && x.PromptMessages == 0
}

// A parser converts the records of one file to examples.
type parser struct {
	names    map[string]string // data's name by key, if different
	known    map[string]string // key by data's name
	roles    map[string]string
	format   *firstRecord // format of the file so far
	pairs    bool         // records are pairs, see ReadOptions
	labels   bool         // answers are labelled
	teachers []string     // that records may name, see ReadOptions
}

// firstRecord holds the format of a file's first record.
type firstRecord struct {
	format Format
	name   string // data's name of its first key
	line   int
}

func newParser(keys, roles map[string]string) (*parser, error) {
	p := &parser{names: map[string]string{}, known: map[string]string{}, roles: maps.Clone(knownRoles)}
	var all []string
	for _, f := range formats {
		all = append(all, f.keys...)
	}
	all = append(all, otherKeys...)
	for key, name := range keys {
		if !slices.Contains(all, key) {
			return nil, &Error{Kind: MissingKey, Reason: fmt.Sprintf("there is no key %q, so it cannot be renamed to %q", key, name),
				Remedy: "the keys are " + strings.Join(all, ", ")}
		}
		if other, ok := p.known[name]; ok || name == "" {
			return nil, &Error{Kind: MissingKey, Reason: fmt.Sprintf("the name %q is given to both %s and %s", name, min(key, other), max(key, other)), Remedy: "give each key its own name"}
		}
		p.names[key], p.known[name] = name, key
	}
	maps.Copy(p.roles, roles)
	return p, nil
}

// name returns the data's name for a key.
func (p *parser) name(key string) string {
	if name, ok := p.names[key]; ok {
		return name
	}
	return key
}

// A record holds the members of a JSON object, by the parser's keys and by the data's.
type record struct {
	p       *parser
	members []member
}

func (r *record) get(key string) ([]byte, bool) {
	name := r.p.name(key)
	for _, m := range r.members {
		if m.key == name {
			return m.value, true
		}
	}
	return nil, false
}

// text returns the value of a key that must be a string; "" if it is absent.
func (r *record) text(key string) (string, *fault) {
	value, ok := r.get(key)
	if !ok {
		return "", nil
	}
	if value[0] != '"' {
		return "", faultf(WrongType, "write it in quotes", "%q is %s where a string is expected", r.p.name(key), typeOf(value))
	}
	return stringOf(value), nil
}

// parse converts a JSON object to an example.
func (p *parser) parse(data []byte, line int) (Example, *fault) {
	members, f := scanObject(data)
	if f != nil {
		return Example{}, f
	}
	r := &record{p, members}
	format, f := r.format()
	if f != nil {
		return Example{}, f
	}
	if p.format == nil {
		p.format = &firstRecord{format, r.p.name(string(format)), line}
	} else if p.format.format != format {
		return Example{}, faultf(MixedFormats, "put each format into its own file", "this record has %q, but the record in line %d has %q: their formats differ",
			r.p.name(string(format)), p.format.line, p.format.name)
	}
	x := Example{Format: format, p: r.p, unused: r.unused(format)}
	switch format {
	case Messages, ShareGPT:
		f = r.conversation(&x, string(format))
	case Completion:
		f = r.completion(&x)
	case Instructions:
		f = r.instructions(&x)
	case Pairs:
		f = r.pair(&x)
	case Text:
		if x.Text, f = r.text("text"); f == nil && x.Text == "" {
			f = faultf(Empty, "remove the record", "%q is empty", r.p.name("text"))
		}
	}
	if f == nil && p.labels && format != Pairs {
		f = r.label(&x)
	}
	if f == nil && p.teachers != nil {
		f = r.teacher(&x)
	}
	return x, f
}

// usedKeys lists the keys of each format besides its own.
var usedKeys = map[Format][]string{
	Messages:   {"system", "tools", "documents", "functions"},
	ShareGPT:   {"system", "tools", "documents", "functions"},
	Completion: slices.Concat([]string{"system", "tools", "documents", "functions"}, reasoningKeys),
	Pairs: slices.Concat([]string{"chosen", "rejected", "prompt", "messages", "conversations", "input", "system", "tools", "documents", "functions"},
		promptNames, reasoningKeys),
	Instructions: slices.Concat([]string{"input", "system", "tools", "documents", "functions"}, reasoningKeys),
}

// unused lists the keys that the format ignores, except those with empty values.
func (r *record) unused(format Format) []string {
	used := usedKeys[format]
	for _, f := range formats {
		if f.format == format {
			used = slices.Concat(used, f.keys)
		}
	}
	var names []string
	for _, m := range r.members {
		isUsed := slices.ContainsFunc(used, func(key string) bool { return r.p.name(key) == m.key })
		if !isUsed && !slices.Contains([]string{`""`, "[]", "{}"}, string(m.value)) {
			names = append(names, m.key)
		}
	}
	return names
}

// conversation reads a list of messages.
func (r *record) conversation(x *Example, key string) (f *fault) {
	value, _ := r.get(key)
	if x.Messages, f = r.p.messages(r.p.name(key), value); f != nil {
		return f
	}
	if f := r.system(x); f != nil {
		return f
	}
	return r.context(x)
}

// system inserts a system message from the record's own key before the others.
func (r *record) system(x *Example) *fault {
	system, f := r.text("system")
	if f != nil || strings.TrimSpace(system) == "" {
		return f
	}
	if first := x.Messages[0]; first.Role() == "system" || first.Role() == "developer" {
		if first.Content() == system {
			return nil
		}
		return faultf(Contradiction, "leave one of them out", "%q differs from the system message at the start of the conversation", r.p.name("system"))
	}
	x.Messages, x.ownSystem = slices.Insert(x.Messages, 0, chat.NewMessage("system", system)), true
	if x.PromptMessages > 0 {
		x.PromptMessages++
	}
	return nil
}

// context reads tools and other parts of a conversation beside its messages. In tables, whose columns
// have one type, these are JSON text.
func (r *record) context(x *Example) (f *fault) {
	for key, list := range map[string]*json.RawMessage{"tools": &x.Tools, "documents": &x.Documents} {
		value, ok := r.get(key)
		if ok && value[0] == '"' {
			value = bytes.TrimSpace([]byte(stringOf(value)))
			ok = len(value) > 0
		}
		if !ok {
			continue
		}
		if *list, f = listOfObjects(r.p.name(key), value); f != nil {
			return f
		}
	}
	value, isOld := r.get("functions") // name of tools in OpenAI's earlier API
	if isOld = isOld && x.Tools == nil; isOld {
		if x.Tools, f = listOfObjects("functions", value); f != nil {
			return f
		}
	}
	if (x.Format == ShareGPT || isOld) && x.Tools != nil {
		x.Tools = wrapFunctions(x.Tools)
	}
	return nil
}

func listOfObjects(name string, value []byte) (json.RawMessage, *fault) {
	if value[0] != '[' {
		return nil, faultf(WrongType, "", "%q is %s where a list of objects is expected", name, typeOf(value))
	}
	items, f := scanList(value)
	if f != nil {
		return nil, faultf(f.kind, f.remedy, "%q: %s", name, f.reason)
	}
	for i, item := range items {
		if item[0] != '{' {
			return nil, faultf(WrongType, "", "%s[%d] is %s where an object is expected", name, i, typeOf(item))
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return slices.Clone(value), nil
}

// completion reads a prompt and its completion.
func (r *record) completion(x *Example) (f *fault) {
	prompt, _ := r.get("prompt")
	completion, _ := r.get("completion")
	if prompt[0] != '[' && completion[0] != '[' {
		if x.Prompt, f = r.text("prompt"); f != nil {
			return f
		}
		if x.Completion, f = r.text("completion"); f != nil {
			return f
		}
		return r.answer(x, x.Prompt)
	}
	if prompt[0] != '[' || completion[0] != '[' {
		return faultf(WrongType, "write both as texts, or both as lists of messages", "%q is %s, but %q is %s",
			r.p.name("prompt"), typeOf(prompt), r.p.name("completion"), typeOf(completion))
	}
	if x.Messages, f = r.p.messages(r.p.name("prompt"), prompt); f != nil {
		return f
	}
	x.PromptMessages = len(x.Messages)
	answer, f := r.p.messages(r.p.name("completion"), completion)
	if f != nil {
		return f
	}
	x.Messages = append(x.Messages, answer...)
	if f := r.system(x); f != nil {
		return f
	}
	return r.context(x)
}

// reasoningKeys are the names for reasoning in a record or a message.
var reasoningKeys = []string{"reasoning_content", "reasoning", "thinking"}

// answer makes a conversation from a question and the completion.
func (r *record) answer(x *Example, question string) *fault {
	answer := chat.NewMessage("assistant", x.Completion)
	for _, key := range reasoningKeys {
		value, ok := r.get(key)
		if ok && value[0] == '"' {
			answer.SetText(key, stringOf(value))
		} else if ok {
			x.unused = append(x.unused, r.p.name(key))
		}
	}
	x.Messages = []chat.Message{chat.NewMessage("user", question), answer}
	if f := r.system(x); f != nil {
		return f
	}
	return r.context(x)
}

// The prompts of Alpaca (github.com/tatsu-lab/stanford_alpaca), with a line end before the answer as
// in most programs.
const (
	alpacaPrompt = "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n" +
		"### Instruction:\n%s\n\n### Response:\n"
	alpacaInputPrompt = "Below is an instruction that describes a task, paired with an input that provides further context. " +
		"Write a response that appropriately completes the request.\n\n### Instruction:\n%s\n\n### Input:\n%s\n\n### Response:\n"
)

// instructions reads an Alpaca record, as a prompt and as a conversation.
func (r *record) instructions(x *Example) *fault {
	instruction, f := r.text("instruction")
	if f != nil {
		return f
	}
	input, f := r.text("input")
	if f != nil {
		return f
	}
	if x.Completion, f = r.text("output"); f != nil {
		return f
	}
	question := instruction
	switch {
	case instruction == "" && input == "":
		return faultf(Empty, "remove the record", "%q is empty", r.p.name("instruction"))
	case input == "":
		x.Prompt = fmt.Sprintf(alpacaPrompt, instruction)
	default:
		x.Prompt = fmt.Sprintf(alpacaInputPrompt, instruction, input)
		question = strings.TrimPrefix(instruction+"\n\n"+input, "\n\n")
	}
	return r.answer(x, question)
}
