package data

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Reading a record takes linear time, whatever it has many of. Quadratic work would take minutes.
func TestWideRecords(t *testing.T) {
	need.Time(t, "reads megabytes")
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const talk = `{"role": "user", "content": "U"%s}, {"role": "assistant", "content": "A"%s}`
	record := func(user, assistant, rest string) string {
		return `{"messages": [` + fmt.Sprintf(talk, user, assistant) + `]` + rest + "}\n"
	}
	for name, text := range map[string]string{
		"keys.jsonl":             record("", "", many(40_000, `, "k%d": 1`)),
		"keys of a message.json": "[" + record(many(20_000, `, "k%d": 1`), "", "") + "]",
		"messages.jsonl":         `{"messages": [` + strings.Repeat(fmt.Sprintf(talk, "", "")+", ", 10_000) + fmt.Sprintf(talk, "", "") + "]}\n",
		"tools.jsonl":            record("", "", `, "tools": [`+many(6000, `{"name": "f%d"}, `)+`{"name": "f"}]`),
		"columns.csv":            "prompt,completion" + many(60_000, ",c%d") + "\nP,C" + many(60_000, ",%d") + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			l := need.Value(Load(ctx, withTemplate(t, chatML), []string{inFolder(t, map[string]string{name: text})(name)}, LoadOptions{Length: 1 << 20}))(t)
			defer l.Close()
			require.Equal(t, 1, l.Stats.Samples)
		})
	}
}
