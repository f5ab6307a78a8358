package jinja

import "time"

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name, source  string
	body          []node
	hasGeneration bool
}

// Parse parses a template. Errors are of type [*Error] and have the name, which names the template's file or model.
func Parse(name, source string) (t *Template, err error) {
	defer catch(&err)
	if len(source) > maxSource {
		fail(name, 1, "a template of %d bytes, and %d are the most", len(source), maxSource)
	}
	p := &parser{name: name, tokens: lex(name, source), used: map[string]bool{}, depth: map[node]int{}}
	return &Template{name, source, p.template(), p.hasGeneration}, nil
}

// Name is the name that was given to Parse.
func (t *Template) Name() string { return t.name }

// Source returns the text of the template.
func (t *Template) Source() string { return t.source }

// HasGenerationTag reports whether the template has {% generation %}.
func (t *Template) HasGenerationTag() bool { return t.hasGeneration }

// Range is a chunk of a text, from and to a byte.
type Range struct{ From, To int }

// Render evaluates the template with values of names, at a time for strftime_now. It gives the text, and where in it
// the bodies of generation tags lie. Errors are of type [*Error].
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
