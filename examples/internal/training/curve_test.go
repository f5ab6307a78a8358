package training

import (
	"cmp"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// noisyRun returns a noisy falling curve of n steps.
func noisyRun(n int) []train.StepMetrics {
	rng := rand.New(rand.NewPCG(1, 1))
	var points []train.StepMetrics
	for i := range n {
		points = append(points, train.StepMetrics{Step: i + 1, Loss: 2 + 3*math.Exp(-float64(i)/50) + 0.1*rng.NormFloat64()})
	}
	return points
}

func TestLossCurve(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "loss")
	validation := []train.Evaluation{{Step: 0, Loss: 5}, {Step: 100, Loss: 3}, {Step: 300, Loss: 2.2}}
	require.NoError(t, saveLossCurve(name, noisyRun(300), validation))
	require.NoError(t, saveLossCurve(name, noisyRun(300), validation), "again, over the old")
	entries := need.Value(os.ReadDir(folder))(t)
	require.Len(t, entries, 2, "no temporary file stays")

	svg := need.Value(os.Open(name + ".svg"))(t)
	defer svg.Close()
	texts, segments := readSVG(t, svg)
	for _, want := range []string{"Loss", "step", "cross-entropy, nats per token", "training", "validation", "0", "300"} {
		require.Contains(t, texts, want)
	}
	require.Contains(t, segments, 299, "each of the 300 losses")
	require.Contains(t, segments, 2, "each of the 3 losses of validation")

	file := need.Value(os.Open(name + ".png"))(t)
	defer file.Close()
	picture := need.Value(png.Decode(file))(t)
	blue, vermilion := 0, 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			switch color.NRGBAModel.Convert(picture.At(x, y)) {
			case color.NRGBA{0x00, 0x72, 0xb2, 0xff}:
				blue++
			case color.NRGBA{0xd5, 0x5e, 0x00, 0xff}:
				vermilion++
			}
		}
	}
	require.Greater(t, blue, 300)
	require.Greater(t, vermilion, 50)
}

// readSVG returns the texts of a picture, and the number of straight segments of each path.
func readSVG(t *testing.T, r io.Reader) (texts []string, segments []int) {
	decoder := xml.NewDecoder(r)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, segments
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "d" {
					segments = append(segments, strings.Count(a.Value, "L"))
				}
			}
		case xml.CharData:
			texts = append(texts, strings.TrimSpace(string(token)))
		}
	}
}

// Runs of few steps have a picture, too. Curves that cannot be drawn or written give an error.
func TestLossCurveOfFewSteps(t *testing.T) {
	name := filepath.Join(t.TempDir(), "loss")
	for steps := 1; steps <= 3; steps++ {
		require.NoError(t, saveLossCurve(name, noisyRun(steps), nil))
	}
	constant := []train.StepMetrics{{Step: 1, Loss: 3}, {Step: 2, Loss: 3}}
	require.NoError(t, saveLossCurve(name, constant, []train.Evaluation{{Step: 1, Loss: 3}}))

	long := filepath.Join(t.TempDir(), strings.Repeat("x", 255-len(".svg")))
	require.NoError(t, saveLossCurve(long, constant, nil))
	require.FileExists(t, long+".svg")

	broken := []train.StepMetrics{{Step: 1, Loss: math.NaN()}}
	require.ErrorContains(t, saveLossCurve(name, broken, nil), "drawing "+name+": ")
	require.ErrorContains(t, saveLossCurve(name, constant, []train.Evaluation{{Step: 1, Loss: math.NaN()}}), "drawing "+name+": ")
	require.ErrorIs(t, saveLossCurve(filepath.Join(name, "none"), constant, nil), fs.ErrNotExist)
}

func TestTrendKeepsStraightLines(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100, 1600} {
		var line plotter.XYs
		for i := range n {
			line = append(line, plotter.XY{X: float64(i), Y: 4 - 0.01*float64(i)})
		}
		for i, p := range trend(line) {
			require.Equal(t, line[i].X, p.X)
			require.InDelta(t, line[i].Y, p.Y, 1e-9)
		}
	}
}

func TestTrendRemovesNoise(t *testing.T) {
	worst := 0.0
	for _, p := range trend(coordinates(noisyRun(1500), stepLoss)) {
		if p.X > 300 {
			worst = max(worst, math.Abs(p.Y-(2+3*math.Exp(-(p.X-1)/50))))
		}
	}
	require.Less(t, worst, 0.05, "half the noise's standard deviation")
}

func TestReduceKeepsMeanAndSpikes(t *testing.T) {
	curve := make(plotter.XYs, 50_000)
	for i := range curve {
		curve[i] = plotter.XY{X: float64(i), Y: 1}
	}
	curve[31_234].Y, curve[40_000].Y = 9, -7
	means := reduce(curve, mean)
	require.Len(t, means, 1600)
	sum := mean(means)[0]
	require.InDelta(t, 49_999/2., sum.X, 1)
	require.InDelta(t, 1+(9-1-7-1)/50_000., sum.Y, 1e-5)

	spikes := reduce(curve, extremes)
	require.Len(t, spikes, 3200)
	require.Contains(t, spikes, curve[31_234])
	require.Contains(t, spikes, curve[40_000])
	require.True(t, slices.IsSortedFunc(spikes, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }))
}
