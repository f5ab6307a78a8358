package jinja_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/jinja"
	"github.com/goggml/ggml/internal/test/need"
)

// sample is a template and its rendering by transformers.
type sample struct {
	Template, Text, Error string
}

func samples(t testing.TB) []sample {
	data := need.Value(os.ReadFile("testdata/language.json"))(t)
	var all []sample
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

var clock = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// render renders a template with the variables of chat templates and a conversation of two messages.
func render(source string) (string, error) {
	messages, err := jinja.DecodeJSON([]byte(`[{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1 é"}]`))
	if err != nil {
		return "", err
	}
	template, err := jinja.Parse("test", source)
	if err != nil {
		return "", err
	}
	names := map[string]jinja.Value{"messages": messages, "tools": nil, "documents": nil, "add_generation_prompt": false}
	out, _, err := template.Render(names, clock)
	return out.String(), err
}

// TestLanguage renders a small template for each construct of Jinja. The expected texts come from transformers, by
// internal/test/chattest; TestInteropLanguage compares them again.
func TestLanguage(t *testing.T) {
	for _, s := range samples(t) {
		got, err := render(s.Template)
		if s.Error != "" {
			assert.Error(t, err, "%s\ntransformers has the error %s", s.Template, s.Error)
			continue
		}
		if assert.NoError(t, err, s.Template) {
			assert.Equal(t, s.Text, got, s.Template)
		}
	}
}

func TestErrorsHaveALine(t *testing.T) {
	for _, c := range []struct{ source, message string }{
		{"a\n{{ 1 +* 2 }}", `test:2: unexpected "*"`},
		{"a\nb\n{% nope %}", `test:3: unknown tag "nope"`},
		{"{% if x %}\n\n", `test:2: unexpected end of template: "if" is open`},
		{"{% for x in y %}\n{% nope %}", `test:2: unknown tag "nope"; the innermost open one is "for"`},
		{"\n{{ raise_exception('only users') }}", "test:2: only users"},
		{"\n\n{{ nothing.x }}", "test:3: 'nothing' is undefined"},
		{"{{ messages[0].name.first }}", "test:1: 'dict object' has no attribute 'name': it is undefined"},
		{"{{ 'x' | nope }}", `test:1: no filter named "nope"`},
		{"{{ messages.append(1) }}", "test:1: access to attribute 'append' of 'list' object: the sandbox of templates forbids it"},
		{"{% set x = 1 %}\n{% include 'x' %}", "test:2: include needs another template, and a chat template has none"},
		{"{% set x = 1 %}\n{# \n", "test:2: missing end of comment tag"},
	} {
		_, err := render(c.source)
		require.ErrorContains(t, err, c.message)
	}
}

// A template is an untrusted program: it terminates, if need be with an error.
func TestLimits(t *testing.T) {
	need.Time(t, "goes to limits of time")
	for _, c := range []struct{ source, message string }{
		{"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "does not come to an end"},
		{"{{ 'a' * 1000000000000 }}", "a text of more than"},
		{"{{ [1] * 1000000000000 }}", "does not come to an end"},
		{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
		{"{{ 'x'.center(1000000000000) }}{{ '%1000000000000d' % 1 }}", "a text of more than"},
		{"{{ '%1000000000000d' % 1 }}", "a text of more than"},
		{"{{ '{:1000000000000}'.format(1) }}", "a text of more than"},
		{"{{ 10 ** 100000 }}", "bits"},
		{"{% set ns = namespace(x='aaaaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "a text of more than"},
		{"{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}", "does not come to an end"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}", "a value of more than"},
		{"{% set ns = namespace(x=(1,)) %}{% for i in range(50) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}", "a value of more than"},
		{"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}", "are compared"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}", "does not come to an end"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", "test:1: a value of more than"},
		{"{{ range(100001) }}", "a range of more than"},
		{strings.Repeat("{% if x %}", 1000), "nested more than"},
		{"{{ " + strings.Repeat("(", 100000), "nested more than"},
		{"{{ " + strings.Repeat("-", 100000), "nested more than"},
		{"{{ " + strings.Repeat("not ", 100000), "nested more than"},
		{"{{ " + strings.Repeat("[", 100000), "nested more than"},
		{"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"},
	} {
		_, err := render(c.source)
		require.ErrorContains(t, err, c.message, "%.80s", c.source)
	}
}
