package jinja

import "time"

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name, source  string
	body          []node
	hasGeneration bool
}

// Parse parses a template. Errors are of type [*Error] and contain name, which identifies the template's file or model.
func Parse(name, source string) (t *Template, err error) {
	defer catch(&err)
	if len(source) > maxSource {
		fail(name, 1, "a template of %d bytes, and %d are the most", len(source), maxSource)
	}
	p := &parser{name: name, tokens: lex(name, source), used: map[string]bool{}, depth: map[node]int{}}
	return &Template{name, source, p.template(), p.hasGeneration}, nil
}

// Name returns the name passed to Parse.
func (t *Template) Name() string { return t.name }

// Source returns the text of the template.
func (t *Template) Source() string { return t.source }

// HasGenerationTag reports whether the template contains {% generation %}.
func (t *Template) HasGenerationTag() bool { return t.hasGeneration }

// Range is a range of bytes of a text.
type Range struct{ From, To int }

// Render renders the template with variables and the time for strftime_now. It returns the text, and the ranges of the
// bodies of generation tags. Errors are of type [*Error].
func (t *Template) Render(names map[string]Value, now time.Time) (out Text, generated []Range, err error) {
	top := &textBuilder{}
	s := &state{name: t.name, line: 1, now: now, out: top, top: top}
	defer s.locate(&err)
	defer catch(&err)
	given := &scope{}
	for name, v := range names {
		given.set(name, v)
	}
	s.exec(t.body, &scope{parent: given})
	return top.text(), s.generated, nil
}
