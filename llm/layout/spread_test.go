package layout

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Layers of 10 bytes, an embedding of 4 and an output of 6 are distributed over places with limited memory. Each place
// that computes needs 2 bytes more.
func TestSpread(t *testing.T) {
	const layers = 8
	n, all := func(n int) *int { return &n }, []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, c := range map[string]struct {
		free  []int64 // per place; 0 for the CPU
		cpu   int
		tied  bool
		split []float64
		all   bool // the split includes the CPU
		want  *int
		mixed []int // layers in which experts take 6 bytes
		says  string
		err   string
	}{
		"all of it fits":                           {free: []int64{0, 92}, says: "the whole model is on A"},
		"the embedding stays behind":               {free: []int64{0, 91}, says: "the embedding on the CPU, all layers and the output on A"},
		"a tied embedding cannot":                  {free: []int64{0, 87}, tied: true, says: "layer 0 on the CPU, layers 1-7 and the output on A"},
		"a tied embedding fits":                    {free: []int64{0, 88}, tied: true, says: "the whole model is on A"},
		"some layers":                              {free: []int64{0, 50}, says: "the embedding and layers 0-3 on the CPU, layers 4-7 and the output on A"},
		"one layer":                                {free: []int64{0, 18}, says: "the embedding and layers 0-6 on the CPU, layer 7 and the output on A"},
		"no layer":                                 {free: []int64{0, 17}, err: "a layer with all that belongs to it needs 0.0 KiB of A, which has 0.0 KiB free"},
		"two alike":                                {free: []int64{0, 100, 100}, says: "the embedding and layers 0-3 on A, layers 4-7 and the output on B"},
		"two, by memory":                           {free: []int64{0, 300, 100}, says: "the embedding and layers 0-5 on A, layers 6-7 and the output on B"},
		"two that are full":                        {free: []int64{0, 46, 48}, says: "the embedding and layers 0-3 on A, layers 4-7 and the output on B"},
		"two, and no room for the embedding":       {free: []int64{0, 54, 38}, says: "the embedding on the CPU, layers 0-4 on A, layers 5-7 and the output on B"},
		"one has no room for the output":           {free: []int64{0, 100, 12}, says: "the whole model is on A"},
		"two too small ones":                       {free: []int64{0, 33, 29}, says: "the embedding and layers 0-2 on the CPU, layers 3-5 on A, layers 6-7 and the output on B"},
		"one has room for nothing":                 {free: []int64{0, 5, 100}, says: "the whole model is on B"},
		"as many as asked":                         {free: []int64{0, 1000}, want: n(3), says: "the embedding and layers 0-4 on the CPU, layers 5-7 and the output on A"},
		"more than there are":                      {free: []int64{0, 1000}, want: n(99), says: "the whole model is on A"},
		"none":                                     {free: []int64{0, 1000}, want: n(0), says: "the whole model is on the CPU"},
		"more than fit":                            {free: []int64{0, 41}, want: n(5), err: "5 layers with all that belongs to them need 0.1 KiB of A, which has 0.0 KiB free; there is room for 3"},
		"one that does not fit":                    {free: []int64{0, 1}, want: n(1), err: "a layer with all that belongs to it needs 0.0 KiB of A, which has 0.0 KiB free"},
		"all that do not fit":                      {free: []int64{0, 50}, want: n(99), err: "8 layers with all that belongs to them need 0.1 KiB of A, which has 0.0 KiB free; there is room for 4"},
		"by parts":                                 {free: []int64{0, 1000, 1000}, split: []float64{0, 3, 1}, says: "the embedding and layers 0-5 on A, layers 6-7 and the output on B"},
		"by parts, as many as fit":                 {free: []int64{0, 32, 1000}, split: []float64{0, 1, 1}, says: "the embedding and layers 0-1 on the CPU, layers 2-4 on A, layers 5-7 and the output on B"},
		"by parts, as many as asked":               {free: []int64{0, 1000, 1000}, split: []float64{0, 1, 1}, want: n(4), says: "the embedding and layers 0-3 on the CPU, layers 4-5 on A, layers 6-7 and the output on B"},
		"by parts with the CPU":                    {free: []int64{0, 1000}, split: []float64{1, 3}, all: true, says: "the embedding and layers 0-1 on the CPU, layers 2-7 and the output on A"},
		"by parts with the CPU last":               {free: []int64{1000, 0}, cpu: 1, split: []float64{3, 1}, all: true, says: "the embedding and layers 0-5 on A, layers 6-7 and the output on the CPU"},
		"by parts that do not fit":                 {free: []int64{0, 40}, split: []float64{1, 3}, all: true, err: "6 layers with all that belongs to them need 0.1 KiB of A, which has 0.0 KiB free"},
		"a part of nothing":                        {free: []int64{0, 1000, 1000}, split: []float64{0, 0, 2}, says: "the whole model is on B"},
		"parts that are no numbers":                {free: []int64{0, 1000, 1000}, split: []float64{0, -1, 2}, err: "the split has a part of -1; parts are numbers of at least 0"},
		"parts of nothing":                         {free: []int64{0, 1000, 1000}, split: []float64{0, 0, 0}, err: "the parts of the split add up to 0"},
		"two numbers of layers":                    {free: []int64{0, 1000}, split: []float64{1, 1}, all: true, want: n(3), err: "the split has a part for the CPU, so it decides how many layers devices get; leave the number of layers out"},
		"the CPU has the rest, last":               {free: []int64{50, 0}, cpu: 1, says: "the embedding and layers 0-3 on A, layers 4-7 and the output on the CPU"},
		"the CPU has the output":                   {free: []int64{88, 0}, cpu: 1, says: "the embedding and all layers on A, the output on the CPU"},
		"the CPU has the output, with a tied half": {free: []int64{82, 0}, cpu: 1, tied: true, says: "all layers on A, the output on the CPU"},
		"the CPU alone":                            {free: []int64{0}, says: "the whole model is on the CPU"},
		"a mixture fits":                           {free: []int64{0, 92}, mixed: all, says: "the whole model is on A"},
		"the embedding of a mixture stays behind":  {free: []int64{0, 91}, mixed: all, says: "the embedding on the CPU, all layers and the output on A"},
		"experts of a layer":                       {free: []int64{0, 87}, mixed: all, says: "the experts of layer 0 on the CPU, the embedding, all layers and the output on A"},
		"experts of some layers":                   {free: []int64{0, 50}, mixed: all, says: "the experts of layers 0-6 on the CPU, the embedding, all layers and the output on A"},
		"experts of all layers":                    {free: []int64{0, 44}, mixed: all, says: "the experts of layers 0-7 on the CPU, the embedding, all layers and the output on A"},
		"experts, and the embedding":               {free: []int64{0, 40}, mixed: all, says: "the embedding and the experts of layers 0-7 on the CPU, all layers and the output on A"},
		"experts, and a layer":                     {free: []int64{0, 39}, mixed: all, says: "the embedding, layer 0 and the experts of layers 1-7 on the CPU, layers 1-7 and the output on A"},
		"experts of layers that have some":         {free: []int64{0, 81}, mixed: []int{2, 4, 6}, says: "the experts of layers 2-4 on the CPU, the embedding, all layers and the output on A"},
		"more than experts":                        {free: []int64{0, 71}, mixed: []int{2, 4, 6}, says: "the embedding and the experts of layers 2-6 on the CPU, all layers and the output on A"},
		"experts of as many as asked":              {free: []int64{0, 30}, mixed: all, want: n(3), says: "the embedding, layers 0-4 and the experts of layers 5-6 on the CPU, layers 5-7 and the output on A"},
		"experts of more than fit":                 {free: []int64{0, 20}, mixed: all, want: n(5), err: "5 layers with all that belongs to them but experts need 0.0 KiB of A, which has 0.0 KiB free; there is room for 3"},
		"experts of two":                           {free: []int64{0, 46, 30}, mixed: all, says: "the embedding and the experts of layers 0-2 on the CPU, layers 0-5 on A, layers 6-7 and the output on B"},
		"experts by parts":                         {free: []int64{0, 40}, split: []float64{1, 3}, all: true, mixed: all, says: "the embedding, layers 0-1 and the experts of layers 2-6 on the CPU, layers 2-7 and the output on A"},
	} {
		t.Run(name, func(t *testing.T) {
			names := []string{"the CPU", "A", "B"}
			if c.cpu == 1 {
				names = []string{"A", "the CPU"}
			}
			s := search{
				places: len(c.free), cpu: c.cpu, layers: layers, tied: c.tied, free: c.free, split: c.split, splitsAll: c.all, want: c.want, mixtures: c.mixed,
				name: func(place int) string { return names[place] },
				need: func(sp spread) ([]int64, error) {
					need := make([]int64, len(c.free))
					for i, n := range sp.counts {
						need[i] += int64(10 * n)
					}
					for _, layer := range sp.experts {
						need[sp.of(layer)] -= 6
						need[c.cpu] += 6
					}
					if need[sp.output] += 6; !c.tied {
						need[sp.embedding] += 4
					}
					for i := range need {
						if need[i] > 0 {
							need[i] += 2
						}
					}
					return need, nil
				},
			}
			found, err := s.run()
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.says, found.describe(layers, c.tied, c.cpu, names))
		})
	}
	failed := errors.New("no measure")
	s := search{places: 2, layers: 2, free: []int64{0, 9}, need: func(spread) ([]int64, error) { return nil, failed }}
	_, err := s.run()
	require.ErrorIs(t, err, failed)
}

func TestApportion(t *testing.T) {
	for _, c := range []struct {
		n       int
		weights []float64
		want    []int
	}{
		{10, []float64{1, 1}, []int{5, 5}},
		{10, []float64{3, 1}, []int{8, 2}},
		{3, []float64{1, 1}, []int{2, 1}},
		{1, []float64{1, 2}, []int{0, 1}},
		{7, []float64{0, 1, 1e300, 1}, []int{0, 0, 7, 0}},
		{0, []float64{1, 2}, []int{0, 0}},
	} {
		require.Equal(t, c.want, apportion(c.n, c.weights), "%+v", c)
	}
}

func TestBytes(t *testing.T) {
	require.Equal(t, []string{"0.5 KiB", "1.5 MiB", "2.0 GiB"}, []string{Bytes(512), Bytes(3 << 19), Bytes(2 << 30)})
}
