package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/tokenizer"
)

// CallOptions say which tool calls an answer may have, and hold them to the schemas of the tools' parameters. The zero value
// leaves all to the model.
type CallOptions struct {
	// Required makes the answer consist of calls.
	Required bool
	// Name is the tool to call; "": any of the conversation's.
	Name string
	// Strict holds the calls that a model begins by itself to the tools' schemas too, from the mark on that begins them. Forms
	// without such a mark ([chat.CallText]) are left free, and so are calls whose mark is inside a token that goes on otherwise.
	Strict bool
	// Single allows one call.
	Single bool
}

// A CallError is a wish for calls that the conversation or the model's template does not allow.
type CallError struct{ Err error }

// Error returns what is wrong.
func (e *CallError) Error() string { return fmt.Sprint(e.Unwrap()) }

// Unwrap returns the error.
func (e *CallError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// A tool is a function of the conversation.
type tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Function   *tool           `json:"function"`
}

// toolsOf returns the tools that may be called.
func toolsOf(talk *chat.Conversation, name string) (list []tool, err error) {
	if err := json.Unmarshal(talk.Tools, &list); err != nil || len(list) == 0 {
		return nil, errors.New("calls need a list of tools")
	}
	for i := range list {
		if list[i].Function != nil {
			list[i] = *list[i].Function
		}
		t := &list[i]
		if t.Name == "" || strings.ContainsAny(t.Name, "\"\\<>{}[]() \n\x00\x01") {
			return nil, fmt.Errorf("tool %d has the name %q; it must have letters, digits, _ and -", i, t.Name)
		}
		if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
			t.Parameters = json.RawMessage(`{"type": "object", "properties": {}, "additionalProperties": false}`)
		}
	}
	if name == "" {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(t tool) bool { return t.Name != name })
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no tool %q to call", name)
	}
	return list, nil
}

// constrainCalls holds an answer to calls, or to calls or the grammar of the options.
func (f *format) constrainCalls(g *generation, prompt string, talk *chat.Conversation) error {
	o, by, reasons := f.options.Calls, f.options.Grammar, notEmpty([]string{f.answers.ReasoningEnd(prompt)})
	text, known := f.answers.CallText()
	free := !o.Required && (by == nil && (!o.Strict || !known || text.Mark == "") || len(talk.Tools) == 0)
	if free {
		return g.constrain(by, reasons...)
	}
	if !known {
		return &CallError{errors.New("the form in which the model's template writes calls is not known well enough to force calls, or to have tools beside a grammar; use tool_choice auto, or leave one of them out")}
	}
	tools, err := toolsOf(talk, o.Name)
	if err != nil {
		return &CallError{err}
	}
	w := &callWriter{text: text, v: f.m.Tokenizer, ends: f.ends.tokens}
	after, source := reasons, ""
	lazy := !o.Required && by == nil
	if lazy { // a text, until the mark begins calls
		after = append(after, text.Mark)
		w.text.Begin = strings.TrimLeft(strings.TrimPrefix(text.Begin, text.Mark), " \n")
	}
	if source, err = w.write(tools, o.Single); err != nil {
		return &CallError{err}
	}
	calls, err := grammar.Parse(source)
	if err != nil {
		return &CallError{err}
	}
	if by != nil && !o.Required {
		if calls, err = grammar.Any(calls, by); err != nil {
			return err
		}
	}
	err = g.constrain(calls, after...)
	if err == nil {
		g.constraint.isLazy = lazy
	}
	return err
}

// A callWriter writes the grammar of calls.
type callWriter struct {
	text   chat.CallText
	v      *tokenizer.Tokenizer
	ends   []int32
	rules  strings.Builder
	values int // rules
}

// write returns the grammar of one call or more of the tools.
func (w *callWriter) write(tools []tool, single bool) (string, error) {
	var calls []string
	arguments, rules, err := w.arguments(tools)
	if err != nil {
		return "", err
	}
	inner := w.literal(w.text.Inner)
	for i, t := range tools {
		call := []string{grammar.Literal(t.Name), inner, arguments[i]}
		if w.text.IsArgumentsFirst {
			slices.Reverse(call)
		}
		calls = append(calls, strings.Join(call, " "))
	}
	root := `[ \n]{0,2} ` + w.literal(w.text.Begin) + " root-call"
	if !single && w.text.Between != "" {
		root += " (" + w.literal(w.text.Between) + " root-call)*"
	}
	root += " " + w.literal(strings.TrimRight(w.text.End, " \n"))
	return "root ::= " + root + "\nroot-call ::= " + strings.Join(calls, " | ") + "\n" + w.rules.String() + rules, nil
}

// arguments returns the rule of each tool's arguments.
func (w *callWriter) arguments(tools []tool) (list []string, rules string, err error) {
	if w.text.Parameters == nil {
		var schemas [][]byte
		for _, t := range tools {
			schemas = append(schemas, t.Parameters)
		}
		rules, list, err = grammar.JSONSchemas(schemas...)
		return list, rules, err
	}
	var schemas [][]byte // of parameters that are not strings
	for _, t := range tools {
		body, err := w.parameters(t, &schemas)
		if err != nil {
			return nil, "", err
		}
		list = append(list, body)
	}
	rules, names, err := grammar.JSONSchemas(schemas...)
	for i, name := range names {
		fmt.Fprintf(&w.rules, "root-value-%d ::= %s\n", i, name)
	}
	return list, rules, err
}

// parameters returns the elements of a tool's parameters, in the order of the schema.
func (w *callWriter) parameters(t tool, schemas *[][]byte) (string, error) {
	p := w.text.Parameters
	var schema struct {
		Properties orderedObject
		Required   []string
		Defs       json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(t.Parameters, &schema); err != nil {
		return "", fmt.Errorf("the parameters of the tool %q: they must be a JSON schema of an object", t.Name)
	}
	var parts []string
	for i, key := range schema.Properties.keys {
		var property map[string]json.RawMessage
		if json.Unmarshal(schema.Properties.values[i], &property) != nil {
			return "", fmt.Errorf("the parameter %q of the tool %q: its schema must be an object", key, t.Name)
		}
		mark, value := p.JSON, ""
		if string(property["type"]) == `"string"` {
			var err error
			if value, err = w.plain(property); err != nil {
				return "", fmt.Errorf("the parameter %q of the tool %q: %w", key, t.Name, err)
			}
			mark = p.Text
		} else {
			if schema.Defs != nil { // references stay inside the document
				property["$defs"] = schema.Defs
			}
			text, err := json.Marshal(property)
			if err != nil {
				return "", err
			}
			value = fmt.Sprint("root-value-", len(*schemas))
			*schemas = append(*schemas, text)
		}
		part := strings.Join([]string{w.literal(p.Before), grammar.Literal(key), w.literal(mark), value, w.literal(p.After)}, " ")
		if !slices.Contains(schema.Required, key) {
			part = "(" + part + ")?"
		}
		parts = append(parts, part)
	}
	return "(" + strings.Join(append(parts, `""`), " ") + ")", nil
}

// plain returns the element of a string that is written as it is.
func (w *callWriter) plain(property map[string]json.RawMessage) (string, error) {
	end := w.text.Parameters.Close
	for _, key := range []string{"pattern", "minLength", "maxLength", "anyOf", "oneOf", "allOf", "$ref"} {
		if _, has := property[key]; has {
			return "", fmt.Errorf("the keyword %q of strings is unsupported where the model writes them without quotes", key)
		}
	}
	var values []string
	if json.Unmarshal(property["enum"], &values) != nil {
		var one *string
		if json.Unmarshal(property["const"], &one) == nil && one != nil {
			values = []string{*one}
		}
	}
	var literals []string
	for _, v := range values {
		if strings.Contains(v, end) {
			return "", fmt.Errorf("the value %q cannot have %q", v, end)
		}
		literals = append(literals, grammar.Literal(v))
	}
	if literals != nil {
		return "(" + strings.Join(literals, " | ") + ")", nil
	}
	if w.values == 0 {
		w.values = 1
		w.rules.WriteString(without("root-text", end))
	}
	return "root-text-0", nil
}

// without returns rules of texts that do not contain a text: rule i follows i characters of it (Knuth, Morris and Pratt).
func without(name, text string) string {
	runes := []rune(text)
	letters := slices.Clone(runes)
	slices.Sort(letters)
	letters = slices.Compact(letters)
	var rules strings.Builder
	for i := range runes {
		var ways []string
		others := "[^"
		for _, c := range letters {
			class := strings.Trim(grammar.Literal(string(c)), `"`)
			others += class
			next := string(runes[:i]) + string(c)
			for !strings.HasPrefix(text, next) {
				_, size := utf8.DecodeRuneInString(next)
				next = next[size:]
			}
			if next != text {
				ways = append(ways, fmt.Sprintf("[%s] %s-%d", class, name, utf8.RuneCountInString(next)))
			}
		}
		fmt.Fprintf(&rules, "%s-%d ::= %s | %s] %s-0 | \"\"\n", name, i, strings.Join(ways, " | "), others, name)
	}
	return rules.String()
}

// literal returns a text as elements, with its control tokens as such. Nothing follows a token that ends an answer.
func (w *callWriter) literal(text string) string {
	var parts []string
	spelt := func(s string) {
		for s != "" {
			at := strings.IndexAny(s, chat.CallIDMark+chat.CallIndexMark)
			if at < 0 {
				at = len(s)
			}
			if at > 0 {
				parts = append(parts, grammar.Literal(s[:at]))
			}
			if s = s[at:]; s == "" {
				break
			}
			if s[:1] == chat.CallIDMark {
				parts = append(parts, "[a-zA-Z0-9]{9}")
			} else {
				parts = append(parts, "[0-9]{1,2}")
			}
			s = s[1:]
		}
	}
	rest := ""
	for _, id := range w.v.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true}) {
		if !w.v.IsSpecial(id) {
			continue
		}
		mark := w.v.TokenText(id)
		before, after, found := strings.Cut(text, mark)
		if !found {
			continue
		}
		rest, text = rest+before, after
		spelt(rest)
		rest = ""
		if w.v.IsEOG(id) || slices.Contains(w.ends, id) {
			return strings.Join(append(parts, `""`), " ")
		}
		parts = append(parts, "<["+strconv.Itoa(int(id))+"]>")
	}
	spelt(rest + text)
	return strings.Join(append(parts, `""`), " ")
}

// An orderedObject is a JSON object with its keys in their order.
type orderedObject struct {
	keys   []string
	values []json.RawMessage
}

// UnmarshalJSON reads an object.
func (o *orderedObject) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it must be an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		o.keys, o.values = append(o.keys, key.(string)), append(o.values, value)
	}
	return nil
}
