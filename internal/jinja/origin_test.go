package jinja_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/jinja"
	"github.com/goggml/ggml/internal/test/need"
)

// Bytes keep the tag of their source string. Text that a template writes while a loop is at a marked dict belongs to
// that dict's turn.
func TestOrigins(t *testing.T) {
	for source, want := range map[string]string{
		"a{{ x }}b": "a 0:0, X 1:0, b 0:0",
		"{{ x | lower ~ '-' }}{{ (x ~ 'yz')[1:2] }}":                                                           "x 1:0, -y 0:0",
		"<{% for d in list %}[{{ d.s }}]{% endfor %}>":                                                         "< 0:0, [ 0:7, S 2:7, ] 0:7, [ 0:8, S 2:8, ] 0:8, > 0:0",
		"{% for i in range(2) %}{% set d = list[i] %}{{ x }}.{% endfor %}":                                     "X 1:7, . 0:7, X 1:8, . 0:8",
		"{% set n = namespace(s='') %}{% for d in list %}{% set n.s = n.s ~ d.s ~ '|' %}{% endfor %}{{ n.s }}": "S 2:7, | 0:7, S 2:8, | 0:8",
		"{% macro m() %}({{ x }}){% endmacro %}{% for d in list %}{{ m() }}{% endfor %}{{ m() }}":              "( 0:7, X 1:7, ) 0:7, ( 0:8, X 1:8, ) 0:8, ( 0:0, X 1:0, ) 0:0",
	} {
		template := need.Value(jinja.Parse("test", source))(t)
		var list []jinja.Value
		for _, mark := range []int32{7, 8} {
			d := jinja.NewDict()
			d.Set("s", jinja.Retag(jinja.NewText("S"), 2))
			d.Mark = mark
			list = append(list, d)
		}
		text, _, err := template.Render(map[string]jinja.Value{"x": jinja.Retag(jinja.NewText("X"), 1), "list": jinja.NewList(list)}, clock)
		require.NoError(t, err)
		var got []string
		for chunk, o := range text.Runs() {
			got = append(got, fmt.Sprintf("%s %d:%d", chunk, o.Tag, o.Turn))
		}
		require.Equal(t, want, strings.Join(got, ", "), source)
	}
}
