package training

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// Ticks are at round numbers, with labels of as many digits as needed.
func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		ticks     roundTicks
		low, high float64
		want      []string
	}{
		{roundTicks{10, true}, 0, 300, []string{"0", "50", "100", "150", "200", "250", "300"}},
		{roundTicks{10, true}, 0, 250, []string{"0", "50", "100", "150", "200", "250"}},
		{roundTicks{10, true}, 1, 3, []string{"1", "2", "3"}},
		{roundTicks{10, true}, 0.5, 1.4, []string{"1"}},
		{roundTicks{10, true}, 0, 123456, []string{"0", "20000", "40000", "60000", "80000", "100000", "120000"}},
		{roundTicks{6, false}, 0.2566, 5.85, []string{"1", "2", "3", "4", "5"}},
		{roundTicks{6, false}, 1.9, 2.63, []string{"2.0", "2.2", "2.4", "2.6"}},
		{roundTicks{6, false}, 4.8, 5.1, []string{"4.80", "4.85", "4.90", "4.95", "5.00", "5.05", "5.10"}},
		{roundTicks{6, false}, -1e-18, 1, []string{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
		{roundTicks{6, false}, 3, 3, nil},
		{roundTicks{6, false}, math.Inf(1), math.Inf(-1), nil},
		{roundTicks{6, false}, 0, math.Inf(1), nil},
	} {
		var labels []string
		for _, tick := range c.ticks.Ticks(c.low, c.high) {
			labels = append(labels, tick.Label)
			value := need.Value(strconv.ParseFloat(tick.Label, 64))(t)
			require.InDelta(t, value, tick.Value, 1e-9*max(1, value))
		}
		require.Equal(t, c.want, labels, "%v to %v", c.low, c.high)
	}
}

// The whole picture, with its legend, is on the page, and every light colour has a dark one.
func TestPictureIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "loss")
	require.NoError(t, saveLossCurve(name, noisyRun(300), []train.Evaluation{{Step: 0, Loss: 5}, {Step: 300, Loss: 2.2}}))
	svg := need.Value(os.ReadFile(name + ".svg"))(t)
	const width, height, margin = 648, 360, 4
	points := 0
	for _, m := range regexp.MustCompile(`[ML]([\d.]+),([\d.]+)`).FindAllSubmatch(svg, -1) {
		x, err1 := strconv.ParseFloat(string(m[1]), 64)
		y, err2 := strconv.ParseFloat(string(m[2]), 64)
		require.NoError(t, err1)
		require.NoError(t, err2)
		if onEdge := (x == 0 || x == width) && (y == 0 || y == height); onEdge { // the background
			continue
		}
		require.True(t, margin <= x && x <= width-margin && margin <= y && y <= height-margin, "%v, %v", x, y)
		points++
	}
	require.Greater(t, points, 300)

	colours := map[string]bool{}
	for _, m := range regexp.MustCompile(`style="[^"]*(fill|stroke):(#[0-9A-F]{6})`).FindAllSubmatch(svg, -1) {
		colours[string(m[1])+":"+string(m[2])] = true
	}
	require.Len(t, colours, 6)
	for colour := range colours {
		require.Contains(t, darkStyle, `[style*="`+colour+`"]`)
	}
	require.Contains(t, string(svg), darkStyle+"<g ")
}
