package jinja

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A stack overflow ends a Go process beyond recovery. So the parser limits the depth of expressions, including mere
// chains of operators.
func TestChains(t *testing.T) {
	const chain = "t:1: an expression of more than 500 operators, attributes, calls or brackets in one another or in a row"
	const size = "t:1: a template of %d bytes, and 1048576 are the most"
	for _, c := range []struct{ first, next, last string }{
		{"1", "+1", ""}, {"1", "*1", ""}, {"1", "**1", ""}, {"a", " or a", ""}, {"a", " and a", ""}, {"a", ".b", ""}, {"a", "['b']", ""},
		{"a", ".0", ""}, {"a", "[:]", ""}, {"a", "()", ""}, {"a", "|upper", ""}, {"a", "|upper is string", ""}, {"a", " if a", ""}, {"a", "|f(1)(1)", ""},
	} {
		template := func(n int) string { return "{{ " + c.first + strings.Repeat(c.next, n) + c.last + " }}" }
		_, err := Parse("t", template(200))
		if c.next != "|upper is string" && c.next != "|f(1)(1)" { // no chains
			require.NoError(t, err, c.next)
		}
		for _, n := range []int{600, 20_000} {
			_, err = Parse("t", template(n))
			require.Error(t, err, c.next)
			require.Contains(t, []string{chain, fmt.Sprintf(size, len(template(n)))}, err.Error(), c.next)
		}
		long := template(1_600_000)
		_, err = Parse("t", long)
		require.EqualError(t, err, fmt.Sprintf(size, len(long)))
	}
	// The depths of nested chains add up.
	nested := "1"
	for range 10 {
		nested = "(" + nested + strings.Repeat("+1", 100) + ")"
	}
	_, err := Parse("t", "{{ "+nested+" }}")
	require.EqualError(t, err, chain)
	// Flat lists are not limited.
	for _, list := range []string{"[" + strings.Repeat("1, ", 20_000) + "]", "'a'" + strings.Repeat("~'a'", 20_000), "1" + strings.Repeat(" < 2", 20_000)} {
		_, err := Parse("t", "{{ "+list+" }}")
		require.NoError(t, err)
	}
}

func TestSizeOfTemplates(t *testing.T) {
	_, err := Parse("t", strings.Repeat("a", maxSource))
	require.NoError(t, err)
	_, err = Parse("t", strings.Repeat("{{a}}", maxTokens/3+1))
	require.EqualError(t, err, "t:1: a template of more than 200000 names, numbers, operators and other parts")
	// A chain of texts takes linear time. It once took minutes.
	_, err = Parse("t", "{{ "+strings.Repeat("'aa'", 190_000)+" }}")
	require.NoError(t, err)
}

func TestLongNumbers(t *testing.T) {
	for _, c := range []struct{ number, reason string }{
		{strings.Repeat("1", 1_000_000), "a number of more than 4096 bits"},
		{strings.Repeat("1", 2000), "a number of more than 4096 bits"},
		{"0x" + strings.Repeat("f", 1_000_000), "a number of more than 4096 bits"},
		{"1." + strings.Repeat("1", 1_000_000), "a number of more than 4096 digits"},
	} {
		_, err := Parse("t", "{{ "+c.number+" }}")
		require.EqualError(t, err, "t:1: "+c.reason)
	}
	_, err := Parse("t", "{{ 0b"+strings.Repeat("1", 4096)+" }}")
	require.NoError(t, err)
	_, err = DecodeJSON([]byte(`{"content": ` + strings.Repeat("1", 1_000_000) + `}`))
	require.ErrorContains(t, err, "a number of more than 4096 bits")
}

func TestLongTimeFormat(t *testing.T) {
	template := need.Value(Parse("t", "{{ strftime_now('%Y' * n) }}"))(t)
	render := func(n int64) (string, error) {
		out, _, err := template.Render(map[string]Value{"n": n}, time.Unix(0, 0).UTC())
		return out.s, err
	}
	out := need.Value(render(100))(t)
	require.Equal(t, strings.Repeat("1970", 100), out)
	_, err := render(5_000_000)
	require.EqualError(t, err, "t:1: a format of the time of more than 1024 bytes")
}
