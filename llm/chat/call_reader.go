package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A callHeader is the text before the arguments of a call.
type callHeader struct {
	pattern      *regexp.Regexp
	name, id, at int // groups
}

// maxHeader is the largest size of a header in bytes: without a header within them, a mark begins no call.
const maxHeader = 300

// newCallHeader returns the header of a pattern, whose group without a name is where the arguments begin.
func newCallHeader(pattern string) *callHeader {
	h := &callHeader{pattern: regexp.MustCompile(`^` + pattern)}
	h.name, h.id, h.at = h.pattern.SubexpIndex("name"), h.pattern.SubexpIndex("id"), slices.Index(h.pattern.SubexpNames()[1:], "")+1
	return h
}

// read returns the call whose header a text begins with, and the size of the header; 0 if there is none.
func (h *callHeader) read(text string) (c ToolCall, n int) {
	at := h.pattern.FindStringSubmatchIndex(text[:min(len(text), maxHeader)])
	if at == nil {
		return c, 0
	}
	if h.id >= 0 && at[2*h.id] >= 0 {
		c.ID = text[at[2*h.id]:at[2*h.id+1]]
	}
	c.Name = text[at[2*h.name]:at[2*h.name+1]]
	return c, at[2*h.at]
}

// An argumentsForm is a way to write arguments. It returns them as JSON text, as far as they are there, and how many bytes
// they take, 0 if more are to come. Text that is not arguments takes a byte or more.
type argumentsForm interface {
	read(text string, types map[string]string, ended bool) (arguments string, n int)
}

// A callReader separates an answer's text and tool calls. Text within a call is read again with each write, until the call
// is complete.
type callReader struct {
	form  *callForm
	types map[string]map[string]string // of the parameters of each tool
	marks []string                     // in the text
	trims bool                         // white space at the end of the text

	text  string
	calls []ToolCall
	rest  string // unread
	state callState
	begin string // of a list in which no call has been found: its mark
	open  bool   // the last call is of the object that is read
	ended bool
}

type callState uint8

const (
	inText callState = iota
	inList
	inObject
	inArguments
)

func newCallReader(form *callForm, prompt string, tools json.RawMessage) *callReader {
	r := &callReader{form: form}
	if form == nil {
		return r
	}
	r.marks = form.frame
	if len(tools) == 0 {
		return r
	}
	r.types = parameterTypes(tools)
	r.marks = slices.Concat(form.frame, form.drop)
	if form.mark == "" {
		r.state = inList
	} else if r.marks = append(r.marks, form.mark); strings.HasSuffix(prompt, form.mark) { // the prompt begins the answer's call
		r.rest = form.mark
	}
	return r
}

func (r *callReader) write(text string) {
	if len(r.marks) == 0 && r.state == inText {
		r.text += text
		return
	}
	r.rest += text
	for r.rest != "" && r.step() {
	}
}

func (r *callReader) end() {
	r.ended = true
	for r.rest != "" && r.step() {
	}
	if r.state == inList || r.state == inObject && !r.open { // otherwise the arguments of a call are incomplete
		r.text += r.begin + r.rest
	}
	r.rest = ""
}

// step reads a part of the text, and reports whether more can be read.
func (r *callReader) step() bool {
	switch r.state {
	case inList:
		return r.readList()
	case inObject:
		return r.readObject()
	case inArguments:
		return r.readArguments()
	}
	at, mark := firstOf(r.rest, r.marks)
	if mark == "" {
		at = len(r.rest)
	}
	if !r.ended {
		at = min(at, len(r.rest)-heldBack(r.rest, r.marks...))
	}
	r.text += r.rest[:at]
	r.rest = r.rest[at:]
	switch {
	case !strings.HasPrefix(r.rest, mark) || mark == "":
		return false
	case mark != r.form.mark:
		r.rest = r.rest[len(mark):]
		return true
	case r.form.header == nil || r.form.isList:
		r.state, r.begin, r.rest = inList, mark, r.rest[len(mark):]
		return true
	}
	return r.readHeader(r.rest, len(mark))
}

// readHeader begins the call whose header is at the start of text. Without a header, it returns how many bytes are text.
func (r *callReader) readHeader(text string, otherwise int) bool {
	call, n := r.form.header.read(text)
	switch {
	case n > 0:
		r.rest = text[n:]
		r.add(call)
		r.state = inArguments
		return true
	case len(text) < maxHeader && !r.ended:
		return false
	}
	r.text += r.begin + r.rest[:otherwise]
	r.rest, r.begin, r.state = r.rest[otherwise:], "", inText
	return true
}

func (r *callReader) add(call ToolCall) {
	if call.ID == "" {
		call.ID = newCallID()
	}
	r.calls, r.begin = append(r.calls, call), ""
}

func (r *callReader) readArguments() bool {
	call := &r.calls[len(r.calls)-1]
	arguments, n := r.form.arguments.read(r.rest, r.types[call.Name], r.ended)
	call.Arguments = arguments
	if n == 0 {
		return false
	}
	r.rest, r.state = r.rest[n:], inText
	if r.form.isList {
		r.state = inList
	}
	return true
}

// readList finds the next call of a list, or its end.
func (r *callReader) readList() bool {
	text := strings.TrimLeft(r.rest, " \t\r\n,;[]")
	for _, mark := range r.form.drop {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			if r.rest = rest; r.form.mark != "" {
				r.state, r.begin = inText, ""
			}
			return true
		}
	}
	switch {
	case !r.ended && heldBack(text, r.form.drop...) == len(text):
		return false
	case r.form.header != nil:
		return r.readHeader(text, 0)
	case strings.HasPrefix(text, "{"):
		r.rest, r.state = text, inObject
		return true
	}
	if r.begin == "" && len(r.calls) > 0 {
		r.rest = text
	}
	r.noCall()
	return true
}

// noCall takes back that a list of calls has begun: its begin and what follows are text.
func (r *callReader) noCall() {
	r.text += r.begin
	r.state, r.begin = inText, ""
}

// readObject reads a call that is a JSON object.
func (r *callReader) readObject() bool {
	o := callObject{nameIsKey: r.form.nameIsKey, strict: r.form.mark == ""}
	n, whole := o.read(r.rest)
	_, known := r.types[o.name]
	isCall := o.named && o.arguments != "" && (known || !o.strict)
	if !isCall && (o.failed || whole || o.named && o.strict && !known) {
		r.noCall()
		return true
	}
	if isCall && !r.open {
		r.add(ToolCall{Name: o.name})
		r.open = true
	}
	if isCall {
		r.calls[len(r.calls)-1].Arguments = o.arguments
	}
	switch {
	case whole:
		r.rest, r.state, r.open = r.rest[n:], inList, false
	case o.failed: // the arguments stay as they are
		r.rest, r.state, r.open = r.rest[n:], inText, false
	}
	return whole || o.failed
}

// answer returns the text and the calls so far. White space behind a text that calls follow is not the text's.
func (r *callReader) answer() Answer {
	text := r.text
	if len(r.calls) > 0 || r.trims || r.types != nil && !r.ended {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return Answer{Text: text, Calls: r.calls}
}

// parameterTypes returns the types in the schemas of tools, by tool and parameter. Invalid schemas have no types.
func parameterTypes(tools json.RawMessage) map[string]map[string]string {
	type function struct {
		Name       string
		Parameters struct {
			Properties map[string]struct{ Type any }
		}
	}
	types := map[string]map[string]string{}
	var list []json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		return types
	}
	for _, item := range list {
		var tool struct {
			function
			Function *function
		}
		if json.Unmarshal(item, &tool) != nil {
			continue
		}
		if tool.Function != nil {
			tool.function = *tool.Function
		}
		of := map[string]string{}
		for key, p := range tool.Parameters.Properties {
			of[key], _ = p.Type.(string)
		}
		types[tool.Name] = of
	}
	return types
}
