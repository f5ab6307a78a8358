package data

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Pairs are measured, and what ruins them is found: records that contradict each other, that are held out too, or whose
// labels are all the same.
func TestInspectPairs(t *testing.T) {
	var pairs, labels strings.Builder
	for i := range 24 {
		fmt.Fprintf(&pairs, `{"prompt": "question %d", "chosen": "it is %d, a long answer", "rejected": "it is %d"}`+"\n", i, i, i)
		fmt.Fprintf(&labels, `{"prompt": "question %d", "completion": "answer %d", "label": true}`+"\n", i, i)
	}
	const turned = `{"prompt": "question 3", "chosen": "it is 3", "rejected": "it is 3, a long answer"}` + "\n"
	in := inFolder(t, map[string]string{
		"p.jsonl": pairs.String(), "turned.jsonl": pairs.String() + turned, "l.jsonl": labels.String(),
		"both.jsonl": labels.String() + `{"prompt": "question 7", "completion": "answer 7", "label": false}` + "\n",
		"held.jsonl": turned,
	})
	v := withTemplate(t, chatML)
	inspect := func(path, held string, o LoadOptions) *Inspection {
		o.Length = 256
		options := InspectOptions{LoadOptions: o, Samples: 1}
		if held != "" {
			options.Held = []string{in(held)}
		}
		return need.Value(Inspect(context.Background(), v, []string{in(path)}, options))(t)
	}
	found := func(i *Inspection) (list []string) {
		for _, f := range i.Findings {
			list = append(list, fmt.Sprintf("%s %d", f.Name, f.N))
		}
		return list
	}
	i := inspect("p.jsonl", "held.jsonl", LoadOptions{Pairs: true})
	require.Equal(t, []string{"length-bias 0"}, found(i))
	require.Equal(t, [4]int{24, 48, 48, 2}, [4]int{i.Stats.Examples, i.Stats.Samples, len(i.Lengths), len(i.Samples)})
	require.Equal(t, [2]Label{Desirable, Undesirable}, [2]Label{i.Samples[0].Label, i.Samples[1].Label})
	require.Equal(t, 24, i.Pairs.Pairs)
	require.Greater(t, i.Pairs.Desirable, i.Pairs.Undesirable)
	require.Equal(t, [2]float64{1, 0}, [2]float64{i.Pairs.Longer, float64(i.Pairs.Contradictions)})
	require.InDelta(t, 0.8, i.Pairs.Shared, 0.2, "all but the end of the shorter answer")

	require.Equal(t, []string{"held-out-too 1", "contradicting-labels 1", "length-bias 0"}, found(inspect("turned.jsonl", "held.jsonl", LoadOptions{Pairs: true})))
	require.Equal(t, []string{"one-label 24"}, found(inspect("l.jsonl", "", LoadOptions{Labels: true})))
	i = inspect("both.jsonl", "", LoadOptions{Labels: true})
	require.Equal(t, []string{"contradicting-labels 1"}, found(i))
	require.Zero(t, i.Pairs.Pairs)
	require.Equal(t, []string{"contradicting-labels 2"}, found(inspect("turned.jsonl", "", LoadOptions{Labels: true})))
	require.Nil(t, inspect("l.jsonl", "", LoadOptions{}).Pairs)
}
