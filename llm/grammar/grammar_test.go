package grammar

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		grammar  string
		yes, not []string
	}{
		{`root ::= "a"`, []string{"a"}, []string{"", "b", "aa"}},
		{`root ::= `, []string{""}, []string{"a"}},
		{`root ::= "ab"{2,3} # twice or three times`, []string{"abab", "ababab"}, []string{"ab", "abb", "abababab"}},
		{`root ::= [a-c^]+ [^a-c] .`, []string{"a^xy", "cca€ß"}, []string{"xyz", "ab", "abx"}},
		{"root ::= x\n  # comment\nx ::= (\"y\" |\n  \"z\"\n) \"!\"", []string{"y!", "z!"}, []string{"y", "yz!"}},
		{`root ::= "(" root ")" | ""`, []string{"", "()", "((()))"}, []string{"(", "())"}},
		{`root ::= item ("," item)*` + "\r\n" + `item ::= [0-9]+ "."?`, []string{"1", "12.,3"}, []string{"1,", "."}},
		{`root ::= "\x41\u00e9\U0001F600\n\r\t\\\"\[\]\-"`, []string{"Aé😀\n\r\t\\\"[]-"}, []string{"A"}},
		{`root ::= [a-] [\]] [\u00e0-\u00ff]`, []string{"-]é", "a]ÿ"}, []string{"b]é", "a]ß"}},
		{`root ::= ("a"?){3} "b"`, []string{"b", "aab", "aaab"}, []string{"aaaab", "aa"}},
		{`root ::= (("a"*)*)* "b"?`, []string{"", "aaa", "ab"}, []string{"ba"}},
		{`root ::= [^\x00-\x7F]`, []string{"é", "€", "😀", "\uFFFD"}, []string{"a", "\xe9", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\x80"}},
		{`root ::= [\uD7FF-\uE000]`, []string{"\uD7FF", "\uE000"}, []string{"\uD7FE", "\xed\xa0\x80"}},
		{`root ::= left-1 left-1` + "\n" + `left-1 ::= "x" | ""`, []string{"", "x", "xx"}, []string{"xxx"}},
		{`root ::= ("ab" | "a") ("c" | "bc")`, []string{"abc", "ac", "abbc"}, []string{"ab"}},
		{`root ::= .{2}{2}`, []string{"abcd", "éééé"}, []string{"abc", "abcde"}},
	} {
		g := need.Value(Parse(c.grammar))(t)
		for _, text := range c.yes {
			require.True(t, need.Value(g.Match(text))(t), "%s\n%q", c.grammar, text)
		}
		for _, text := range c.not {
			require.False(t, need.Value(g.Match(text))(t), "%s\n%q", c.grammar, text)
		}
	}
}

func TestErrors(t *testing.T) {
	for grammar, message := range map[string]string{
		``:                         `grammar: there is no rule "root"`,
		`x ::= "a"`:                `grammar: there is no rule "root"`,
		`root ::= x`:               `grammar: there is no rule "x", which another one uses`,
		"root ::= \"a\"\nroot ::=": `grammar: line 2, column 1: the rule "root" is defined twice`,
		`root = "a"`:               `grammar: line 1, column 6: expected ::= after the name of a rule`,
		`_ ::= "a"`:                `grammar: line 1, column 1: expected the name of a rule: letters, digits and -`,
		`root ::= "é" )`:           `grammar: line 1, column 14: expected the end of the rule, found ')'`,
		`root ::= ("a"`:            `grammar: line 1, column 10: the group has no )`,
		`root ::= "a`:              `grammar: line 1, column 10: there is no closing "`,
		`root ::= "a\`:             `grammar: line 1, column 10: there is no closing "`,
		`root ::= [a`:              `grammar: line 1, column 10: there is no closing ]`,
		`root ::= []`:              `grammar: line 1, column 10: the class is empty`,
		`root ::= [b-a]`:           `grammar: line 1, column 11: the range 'b' to 'a' ends before it begins`,
		`root ::= "\q"`:            `grammar: line 1, column 11: unknown escape; there are \n \r \t \\ \" \[ \] \- \xFF \uFFFF \U0010FFFF`,
		`root ::= "\x4"`:           `grammar: line 1, column 11: expected 2 hexadecimal digits`,
		`root ::= "\U00110000"`:    `grammar: line 1, column 11: there is no code point U+110000`,
		`root ::= [\uD800]`:        `grammar: a class has no code point that UTF-8 can encode`,
		`root ::= *`:               `grammar: line 1, column 10: '*' repeats nothing`,
		`root ::= "a"{x}`:          `grammar: line 1, column 13: expected a repetition such as {2}, {2,} or {2,5}`,
		`root ::= "a"{2,1}`:        `grammar: line 1, column 10: a repetition of at least 2 and at most 1`,
		`root ::= "a"****?*?*?*?`:  `grammar: line 1, column 10: more than 8 repetitions of one another`,
		`root ::= !x`:              `grammar: line 1, column 10: expected a token, such as !<|end|>, after !`,
		`root ::= <x`:              `grammar: line 1, column 10: the token has no >`,
		`root ::= <[x]>`:           `grammar: line 1, column 10: expected the ID of a token, such as <[12]>`,
		"root ::= \"\xff\"":        `grammar: line 1, column 11: invalid UTF-8`,
		"root ::= \"a\" \x00":      `grammar: line 1, column 14: expected the end of the rule, found '\x00'`,
		`root ::= root "a" | "b"`:  `grammar: the rule "root" can begin with itself (left recursion); write it as a repetition, or with itself at the end`,
		"root ::= x \"a\"\nx ::= \"b\"? (root | \"c\")": `grammar: the rule "root" can begin with itself (left recursion); write it as a repetition, or with itself at the end`,
		"root ::= x x\nx ::= \"\" | y\ny ::= x x":       `grammar: the rule "x" can begin with itself (left recursion); write it as a repetition, or with itself at the end`,
		`root ::= "ab"{99999999999999999999}`:           `grammar: it needs more than 262144 states; lower the counts of its repetitions`,
		`root ::= ` + strings.Repeat("(", 300):          `grammar: line 1, column 266: more than 256 groups in groups`,
	} {
		_, err := Parse(grammar)
		require.EqualError(t, err, message, "%s", grammar)
	}
}

// Grammars that cost others exponential memory or time are small, or end a text.
func TestBombs(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		grammar, text string
		err           error
	}{
		{`root ::= (("a"+)+)+ "b"`, a(5000) + "b", nil},
		{`root ::= ` + strings.Repeat(`"a"? `, 500), a(500), nil},
		{`root ::= "[" root "]" | "x"`, strings.Repeat("[", 50_000) + "x" + strings.Repeat("]", 50_000), nil},
		{`root ::= "a" root | "a" root "" | ""`, a(50_000), nil},
		{`root ::= ("a" | "a" | "aa" | [a-z])* "!"`, a(50_000) + "!", nil},
		{`root ::= "a"{0,60000} "b"`, a(60_000) + "b", nil},
		{"root ::= " + strings.Repeat("(", 40) + `"a"` + strings.Repeat("){1,1000}", 40), a(50), ErrAmbiguous},
		{`root ::= "a" root "b" | "a" root "c" | ""`, a(5) + "bcbcc", nil},
		{`root ::= "a" root "b" | "a" root "c" | ""`, a(1000), ErrAmbiguous},
	} {
		matches, err := need.Value(Parse(c.grammar))(t).Match(c.text)
		require.Equal(t, c.err, err, "%.60s", c.grammar)
		require.Equal(t, err == nil, matches, "%.60s", c.grammar)
	}
}

// ends returns where a text that begins at an offset and has an expression can end, by definition.
func ends(rules []expr, x expr, text string, from int) map[int]bool {
	found := map[int]bool{}
	then := func(starts map[int]bool, y expr) map[int]bool {
		all := map[int]bool{}
		for at := range starts {
			for end := range ends(rules, y, text, at) {
				all[end] = true
			}
		}
		return all
	}
	switch x := x.(type) {
	case class:
		r, n := utf8.DecodeRuneInString(text[from:])
		for _, of := range x {
			if n > 0 && of.lo <= r && r <= of.hi {
				found[from+n] = true
			}
		}
	case rule:
		return ends(rules, rules[x], text, from)
	case choice:
		for _, y := range x {
			for end := range ends(rules, y, text, from) {
				found[end] = true
			}
		}
	case sequence:
		found[from] = true
		for _, y := range x {
			found = then(found, y)
		}
	case repeat:
		at := map[int]bool{from: true}
		for n := 0; n <= len(text)+x.min && (x.max == noLimit || n <= x.max); n++ {
			if n >= x.min {
				for end := range at {
					found[end] = true
				}
			}
			at = then(at, x.of)
		}
	}
	return found
}

// randomExpr draws an expression over few characters, with calls of later rules alone.
func randomExpr(r *rapid.T, depth, rules, self int) expr {
	kinds := []string{"class", "text"}
	if depth > 0 {
		kinds = append(kinds, "choice", "sequence", "repeat")
	}
	if self < rules-1 {
		kinds = append(kinds, "rule")
	}
	several := func() []expr {
		list := make([]expr, rapid.IntRange(1, 3).Draw(r, "length"))
		for i := range list {
			list[i] = randomExpr(r, depth-1, rules, self)
		}
		return list
	}
	letter := rapid.SampledFrom([]rune("abé"))
	switch rapid.SampledFrom(kinds).Draw(r, "kind") {
	case "class":
		from, to := letter.Draw(r, "from"), letter.Draw(r, "to")
		return class{{min(from, to), max(from, to)}}.canonical(rapid.Bool().Draw(r, "not"))
	case "choice":
		return choice(several())
	case "sequence":
		return sequence(several())
	case "repeat":
		least := rapid.IntRange(0, 2).Draw(r, "least")
		most := least + rapid.IntRange(0, 2).Draw(r, "more")
		if rapid.Bool().Draw(r, "open") {
			most = noLimit
		}
		return repeat{randomExpr(r, depth-1, rules, self), least, most}
	case "rule":
		return rule(rapid.IntRange(self+1, rules-1).Draw(r, "rule"))
	}
	text := sequence{}
	for range rapid.IntRange(0, 2).Draw(r, "letters") {
		l := letter.Draw(r, "letter")
		text = append(text, class{{l, l}})
	}
	return text
}

// The automaton accepts exactly the texts of the definition.
func TestMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rules := make([]expr, rapid.IntRange(1, 3).Draw(r, "rules"))
		names := make([]string, len(rules))
		for i := range rules {
			rules[i] = randomExpr(r, 3, len(rules), i)
		}
		g := &Grammar{need.Value(compile(rules, names, 0))(r)}
		for _, text := range rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 5, -1), 1, 8).Draw(r, "texts") {
			require.Equal(r, ends(rules, rules[0], text, 0)[len(text)], need.Value(g.Match(text))(r), "%q %v", text, rules)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`root ::= "a" | [b-c]* (x | .){2,3} <[1]> !<x>`+"\nx ::= \"y\" # z", "abc")
	f.Fuzz(func(t *testing.T, grammar, text string) {
		g, err := Parse(grammar)
		if err != nil {
			return
		}
		if _, err := g.Match(text); err != nil {
			require.Equal(t, ErrAmbiguous, err)
		}
	})
}

// A text of several grammars has one of them, whatever their rules, counts and tokens are.
func TestAny(t *testing.T) {
	both := need.Value(Any(need.Value(Parse(`root ::= "a" x | <[1]>`+"\nx ::= [0-9] x?"))(t), need.Value(ParseJSONSchema([]byte(`{"type": "array", "items": {"type": "boolean"}}`)))(t)))(t)
	for text, want := range map[string]bool{"a12": true, "[true,false]": true, "a": false, "a1[]": false, "": false, "[1]": false} {
		require.Equal(t, want, need.Value(both.Match(text))(t), text)
	}
	v := vocabulary(t)
	m := need.Value(need.Value(Any(both, need.Value(Parse(`root ::= <[3]> "b"`))(t)))(t).NewMatcher(v))(t)
	require.NoError(t, m.Accept(3))
	require.NoError(t, m.AcceptText("b"))
	require.True(t, m.MustEnd())
	_, err := Any()
	require.Error(t, err)
	_, err = Any(both, nil)
	require.EqualError(t, err, "the grammar is nil")
}

// Several schemas share their rules, each with references into its own document.
func TestJSONSchemas(t *testing.T) {
	rules, names, err := JSONSchemas([]byte(`{"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}`), []byte(`{"$ref": "#/$defs/a", "$defs": {"a": {"enum": ["x"]}}}`), []byte(`{"type": "object", "properties": {"root": {"const": 1}}, "required": ["root"]}`))
	require.NoError(t, err)
	require.Len(t, names, 3)
	for i, text := range []string{"17", `"x"`, `{"root":1}`} {
		for j := range names {
			g := need.Value(Parse("root ::= " + names[j] + "\n" + rules))(t)
			require.Equal(t, i == j, need.Value(g.Match(text))(t), "%s by %s\n%s", text, names[j], rules)
		}
	}
	_, _, err = JSONSchemas([]byte("true"), []byte("false"))
	require.ErrorContains(t, err, "schema 1: ")
}
