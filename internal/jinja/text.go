package jinja

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// Text is a Python string that tracks the origin of its bytes through all operations.
type Text struct {
	s    string
	runs []run // nil if all of it is the template's own text
	safe bool  // markupsafe.Markup: operands added to it are escaped
}

// run is a part of a text with one origin; it begins at the end of the previous run.
type run struct {
	end int
	Origin
}

// Origin is the source of bytes of a text. The zero value is the template itself, outside of all turns.
type Origin struct {
	// Tag is the number that [Retag] gave the source string; 0 for the template's own text.
	Tag int32
	// Turn is the mark of the dict in whose turn the template first wrote the bytes (see [Dict.Mark]); 0 means none.
	Turn int32
}

// NewText returns a text without tag.
func NewText(s string) Text { return Text{s: s} }

func marked(s string, o Origin) Text {
	if s == "" || o == (Origin{}) {
		return NewText(s)
	}
	return Text{s: s, runs: []run{{len(s), o}}}
}

// Retag returns a copy of a value with a tag on all its strings, including keys.
func Retag(v Value, tag int32) Value {
	switch v := v.(type) {
	case Text:
		return marked(v.s, Origin{Tag: tag})
	case *Sequence:
		items := make([]Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = Retag(item, tag)
		}
		return &Sequence{v.kind, items}
	case *Dict:
		out := NewDict()
		for k, item := range v.all() {
			out.setItem(Retag(k, tag), Retag(item, tag))
		}
		return out
	}
	return v
}

// String returns the text without origins.
func (t Text) String() string { return t.s }

// Runs yields the parts of the text with their origins, in order and without gaps.
func (t Text) Runs() iter.Seq2[string, Origin] { return t.runsOf(0, len(t.s)) }

// runsOf yields the runs of t[from:to].
func (t Text) runsOf(from, to int) iter.Seq2[string, Origin] {
	return func(yield func(chunk string, o Origin) bool) {
		if from >= to {
			return
		}
		if t.runs == nil {
			yield(t.s[from:to], Origin{})
			return
		}
		begin := 0
		for _, r := range t.runs {
			if begin >= to {
				return
			}
			if a, b := max(begin, from), min(r.end, to); a < b && !yield(t.s[a:b], r.Origin) {
				return
			}
			begin = r.end
		}
	}
}

// Slice returns t[from:to], in bytes.
func (t Text) Slice(from, to int) Text {
	if from >= to {
		return Text{safe: t.safe}
	}
	if t.runs == nil || from == 0 && to == len(t.s) {
		return Text{s: t.s[from:to], runs: t.runs, safe: t.safe}
	}
	out := Text{s: t.s[from:to], safe: t.safe}
	end := 0
	for chunk, o := range t.runsOf(from, to) {
		end += len(chunk)
		out.runs = append(out.runs, run{end, o})
	}
	return out
}

// inTurn returns t with a turn on all bytes without one, provided that some bytes have a tag.
func (t Text) inTurn(turn int32) Text {
	if t.runs == nil {
		return t
	}
	var b textBuilder
	b.addInTurn(t, turn)
	out := b.text()
	out.safe = t.safe
	return out
}

// originAt returns the origin of byte i.
func (t Text) originAt(i int) Origin {
	for _, r := range t.runs {
		if i < r.end {
			return r.Origin
		}
	}
	return Origin{}
}

// within returns s with the origin of t's first byte, for texts computed from t as a whole.
func (t Text) within(s string) Text {
	if s == "" || t.s == "" {
		return NewText(s)
	}
	return marked(s, t.originAt(0))
}

// mapRunes replaces each code point.
func (t Text) mapRunes(f func(i int, r rune) string) Text {
	var b textBuilder
	if t.runs == nil {
		for i, r := range t.s {
			b.write(f(i, r), Origin{})
		}
		return b.text()
	}
	at := 0
	for i, r := range t.s {
		for at < len(t.runs)-1 && i >= t.runs[at].end {
			at++
		}
		b.write(f(i, r), t.runs[at].Origin)
	}
	return b.text()
}

// length returns the number of code points, as in Python.
func (t Text) length() int { return utf8.RuneCountInString(t.s) }

// offset returns the offset in bytes of code point i, 0 ≤ i ≤ length.
func (t Text) offset(i int) int {
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

// trimFunc strips code points from the left, the right, or both.
func (t Text) trimFunc(strip func(rune) bool, left, right bool) Text {
	from, to := 0, len(t.s)
	if left {
		from = len(t.s) - len(strings.TrimLeftFunc(t.s, strip))
	}
	if right {
		to = max(from, len(strings.TrimRightFunc(t.s, strip)))
	}
	return t.Slice(from, to)
}

// Concat concatenates texts.
func Concat(parts ...Text) Text {
	var b textBuilder
	for _, p := range parts {
		b.add(p)
	}
	return b.text()
}

// textBuilder concatenates texts with their origins.
type textBuilder struct {
	b    []byte
	runs []run
}

func (b *textBuilder) write(s string, o Origin) {
	if s == "" {
		return
	}
	b.b = append(b.b, s...)
	if n := len(b.runs); n > 0 && b.runs[n-1].Origin == o {
		b.runs[n-1].end = len(b.b)
		return
	}
	b.runs = append(b.runs, run{len(b.b), o})
}

func (b *textBuilder) add(t Text) { b.addInTurn(t, 0) }

// addInTurn adds a text; bytes without a turn get this one.
func (b *textBuilder) addInTurn(t Text, turn int32) {
	for chunk, o := range t.Runs() {
		if o.Turn == 0 {
			o.Turn = turn
		}
		b.write(chunk, o)
	}
}

func (b *textBuilder) addString(s string) { b.write(s, Origin{}) }

func (b *textBuilder) text() Text {
	t := Text{s: string(b.b), runs: b.runs}
	if len(t.runs) == 1 && t.runs[0].Origin == (Origin{}) {
		t.runs = nil
	}
	return t
}
