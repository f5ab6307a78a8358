package chat

import (
	"strings"
	"unicode/utf8"
)

// Source is what a byte of the rendered text comes from.
type Source uint8

// Sources. Markup is what the template itself writes; everything else was given to it.
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

// origin is where bytes come from. The zero value is the template, outside of every message.
type origin struct {
	message int32 // of the conversation, from 1; 0 for none
	unit    int32 // of what was given, from 1; 0 for none: see units
	source  Source
}

// run is a chunk of text of one origin, which begins where the run before it ends.
type run struct {
	end int
	origin
}

// text is a string of Python's that knows where its bytes come from. Without runs all of it is the template's.
type text struct {
	s    string
	runs []run
	safe bool // markupsafe.Markup: what is added to it is escaped
}

func plain(s string) text { return text{s: s} }

func marked(s string, o origin) text {
	if s == "" || o == (origin{}) {
		return plain(s)
	}
	return text{s: s, runs: []run{{len(s), o}}}
}

// eachRun calls f with the chunks of t[from:to] and their origins.
func (t text) eachRun(from, to int, f func(chunk string, o origin)) {
	if from >= to {
		return
	}
	if t.runs == nil {
		f(t.s[from:to], origin{})
		return
	}
	begin := 0
	for _, r := range t.runs {
		if begin >= to {
			return
		}
		if a, b := max(begin, from), min(r.end, to); a < b {
			f(t.s[a:b], r.origin)
		}
		begin = r.end
	}
}

// slice is t[from:to], in bytes.
func (t text) slice(from, to int) text {
	if from >= to {
		return text{safe: t.safe}
	}
	if t.runs == nil || from == 0 && to == len(t.s) {
		return text{s: t.s[from:to], runs: t.runs, safe: t.safe}
	}
	out := text{s: t.s[from:to], safe: t.safe}
	end := 0
	t.eachRun(from, to, func(chunk string, o origin) {
		end += len(chunk)
		out.runs = append(out.runs, run{end, o})
	})
	return out
}

// inTurn gives the mark-up in a text of messages to the turn that it is written in.
func (t text) inTurn(turn int32) text {
	if t.runs == nil {
		return t
	}
	var b textBuilder
	t.eachRun(0, len(t.s), func(chunk string, o origin) { b.write(chunk, o.inTurn(turn)) })
	out := b.text()
	out.safe = t.safe
	return out
}

// inTurn gives the turn what is of no message: mark-up and variables.
func (o origin) inTurn(turn int32) origin {
	if o.message == 0 && o.source <= Variable {
		o.message = turn
	}
	return o
}

// originAt is the origin of the byte at i.
func (t text) originAt(i int) origin {
	for _, r := range t.runs {
		if i < r.end {
			return r.origin
		}
	}
	return origin{}
}

// length counts code points, as Python does.
func (t text) length() int { return utf8.RuneCountInString(t.s) }

// within is t with a mark of its first byte's origin on all of s: for text that is computed from t as a whole.
func (t text) within(s string) text {
	if s == "" || t.s == "" {
		return plain(s)
	}
	return marked(s, t.originAt(0))
}

// mapRunes replaces each code point.
func (t text) mapRunes(f func(i int, r rune) string) text {
	var b textBuilder
	if t.runs == nil {
		for i, r := range t.s {
			b.write(f(i, r), origin{})
		}
		return b.text()
	}
	at := 0
	for i, r := range t.s {
		for at < len(t.runs)-1 && i >= t.runs[at].end {
			at++
		}
		b.write(f(i, r), t.runs[at].origin)
	}
	return b.text()
}

// textBuilder joins chunks, each with its origin.
type textBuilder struct {
	b    []byte
	runs []run
}

func (b *textBuilder) write(s string, o origin) {
	if s == "" {
		return
	}
	b.b = append(b.b, s...)
	if n := len(b.runs); n > 0 && b.runs[n-1].origin == o {
		b.runs[n-1].end = len(b.b)
		return
	}
	b.runs = append(b.runs, run{len(b.b), o})
}

func (b *textBuilder) add(t text) {
	t.eachRun(0, len(t.s), b.write)
}

func (b *textBuilder) addString(s string) { b.write(s, origin{}) }

func (b *textBuilder) text() text {
	t := text{s: string(b.b), runs: b.runs}
	if len(t.runs) == 1 && t.runs[0].origin == (origin{}) {
		t.runs = nil
	}
	return t
}

func concat(parts ...text) text {
	var b textBuilder
	for _, p := range parts {
		b.add(p)
	}
	return b.text()
}

// offset is the byte at which code point i begins; i is from 0 to the length.
func (t text) offset(i int) int {
	if i <= 0 {
		return 0
	}
	n := 0
	for at := range t.s {
		if n == i {
			return at
		}
		n++
	}
	return len(t.s)
}

// trimFunc strips code points from the sides that are asked for.
func (t text) trimFunc(strip func(rune) bool, left, right bool) text {
	from, to := 0, len(t.s)
	if left {
		from = len(t.s) - len(strings.TrimLeftFunc(t.s, strip))
	}
	if right {
		to = max(from, len(strings.TrimRightFunc(t.s, strip)))
	}
	return t.slice(from, to)
}

// split splits at each occurrence of sep, at most limit times if it is not negative.
func (t text) split(sep string, limit int) []text {
	var out []text
	from := 0
	for limit < 0 || len(out) < limit {
		i := strings.Index(t.s[from:], sep)
		if i < 0 {
			break
		}
		out = append(out, t.slice(from, from+i))
		from += i + len(sep)
	}
	return append(out, t.slice(from, len(t.s)))
}

// rsplit is split from the right.
func (t text) rsplit(sep string, limit int) []text {
	var out []text
	to := len(t.s)
	for limit < 0 || len(out) < limit {
		i := strings.LastIndex(t.s[:to], sep)
		if i < 0 {
			break
		}
		out = append(out, t.slice(i+len(sep), to))
		to = i
	}
	out = append(out, t.slice(0, to))
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// splitSpace splits at white space, as str.split() without a separator does.
func (t text) splitSpace(limit int) []text {
	var out []text
	rest := t.trimFunc(isSpace, true, false)
	for rest.s != "" {
		i := strings.IndexFunc(rest.s, isSpace)
		if i < 0 {
			return append(out, rest)
		}
		if limit >= 0 && len(out) >= limit {
			return append(out, rest)
		}
		out = append(out, rest.slice(0, i))
		rest = rest.slice(i, len(rest.s)).trimFunc(isSpace, true, false)
	}
	return out
}

// rsplitSpace is splitSpace from the right.
func (t text) rsplitSpace(limit int) []text {
	var out []text
	rest := t.trimFunc(isSpace, false, true)
	for rest.s != "" {
		i := strings.LastIndexFunc(rest.s, isSpace)
		if i < 0 || limit >= 0 && len(out) >= limit {
			out = append(out, rest)
			break
		}
		_, size := utf8.DecodeRuneInString(rest.s[i:])
		out = append(out, rest.slice(i+size, len(rest.s)))
		rest = rest.slice(0, i).trimFunc(isSpace, false, true)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// splitLines splits at Python's line boundaries.
func (t text) splitLines(keep bool) []text {
	var out []text
	from := 0
	for i := 0; i < len(t.s); {
		r, size := utf8.DecodeRuneInString(t.s[i:])
		if !isLineBreak(r) {
			i += size
			continue
		}
		end := i
		i += size
		if r == '\r' && strings.HasPrefix(t.s[i:], "\n") {
			i++
		}
		if keep {
			end = i
		}
		out = append(out, t.slice(from, end))
		from = i
	}
	if from < len(t.s) {
		out = append(out, t.slice(from, len(t.s)))
	}
	return out
}

// replace replaces old, at most limit times if it is not negative.
func (t text) replace(old, by text, limit int) text {
	var b textBuilder
	if old.s == "" {
		return t.interleave(by, limit)
	}
	for i, chunk := range t.split(old.s, limit) {
		if i > 0 {
			b.add(by)
		}
		b.add(chunk)
	}
	return b.text()
}

// interleave puts by before each code point and at the end, which is what replacing an empty string means.
func (t text) interleave(by text, limit int) text {
	var b textBuilder
	n := 0
	for i, r := range t.s {
		if limit < 0 || n < limit {
			b.add(by)
			n++
		}
		b.add(t.slice(i, i+utf8.RuneLen(r)))
	}
	if limit < 0 || n < limit {
		b.add(by)
	}
	return b.text()
}

// isSpace is str.isspace of one code point.
func isSpace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= ' ', r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// isLineBreak is where str.splitlines splits.
func isLineBreak(r rune) bool {
	switch r {
	case '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}
