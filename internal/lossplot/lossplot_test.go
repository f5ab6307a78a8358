package lossplot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// training is a noisy falling curve of n points.
func training(n int) Series {
	r := rand.New(rand.NewSource(1))
	s := Series{Name: "training", Style: Smoothed}
	for i := 0; i < n; i++ {
		s.X = append(s.X, float64(i))
		s.Y = append(s.Y, 2+3*math.Exp(-float64(i)/50)+0.1*r.NormFloat64())
	}
	return s
}

func validation() Series {
	return Series{Name: "validation <old & new>", X: []float64{0, 100, 200}, Y: []float64{5, 3, 2.2}, Style: Points}
}

func encode(t require.TestingT, f Figure, format string) []byte {
	var buf bytes.Buffer
	require.NoError(t, f.Encode(&buf, format))
	return buf.Bytes()
}

// pixels counts the pixels that are nearly of colour c.
func pixels(img image.Image, c color.NRGBA) int {
	n := 0
	near := func(a uint32, b uint8) bool { return math.Abs(float64(a>>8)-float64(b)) < 12 }
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			if near(r, c.R) && near(g, c.G) && near(b, c.B) {
				n++
			}
		}
	}
	return n
}

func TestPNG(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(encode(t, Figure{Title: "Loss", Series: []Series{training(300), validation()}}, "png")))
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, 900, 500), img.Bounds())
	require.Greater(t, pixels(img, palette[0]), 300, "the curve in the first colour")
	require.Greater(t, pixels(img, palette[1]), 100, "the markers in the second colour")
	require.Less(t, pixels(img, palette[2]), 5, "no third series")
	require.Greater(t, pixels(img, color.NRGBA{0xff, 0xff, 0xff, 0xff}), 900*500*8/10, "white ground")
}

func TestSVG(t *testing.T) {
	svg := encode(t, Figure{Title: "Loss", XLabel: "tokens", YLabel: "loss", Series: []Series{training(300), validation()}}, "svg")
	var texts []string
	paths := 0
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "path" {
				paths++
			}
		case xml.CharData:
			texts = append(texts, string(bytes.TrimSpace(token)))
		}
	}
	for _, want := range []string{"Loss", "tokens", "loss", "training", "validation <old & new>", "0", "100"} {
		require.Contains(t, texts, want)
	}
	require.Greater(t, paths, 20)
	require.Contains(t, string(svg), `width="675pt" height="375pt"`)
	require.Contains(t, string(svg), "Arial,Helvetica,sans-serif")
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"loss.svg", "loss.png", "LOSS.PNG"} {
		first := filepath.Join(dir, name)
		require.NoError(t, Save(first, "Loss", training(300), validation()))
		again := filepath.Join(dir, "again-"+name)
		require.NoError(t, Save(again, "Loss", training(300), validation()))
		a, err := os.ReadFile(first)
		require.NoError(t, err)
		b, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 6, "no temporary file stays")
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	ok := validation()
	nan := math.NaN()
	tests := []struct {
		name, file string
		series     []Series
		want       string
	}{
		{"no series", "a.svg", nil, "there is no series to draw"},
		{"no points", "a.svg", []Series{ok, {Name: "b"}}, `series 1 "b" has no finite point among its 0`},
		{"no finite point", "a.png", []Series{{Name: "b", X: []float64{1, nan}, Y: []float64{nan, 1}}}, `has no finite point among its 2`},
		{"lengths", "a.png", []Series{{Name: "b", X: []float64{1, 2}, Y: []float64{1}}}, `series 0 "b" has 2 x values and 1 y values`},
		{"format", "a.pdf", []Series{ok}, `unknown format "pdf": use the extension .svg or .png`},
		{"no extension", "a", []Series{ok}, `unknown format ""`},
		{"directory", "missing/a.svg", []Series{ok}, "writing "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, Save(filepath.Join(dir, tt.file), "", tt.series...), tt.want)
		})
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestSegments(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	s := Series{X: []float64{0, 1, 2, nan, 4, 5, 6, 7}, Y: []float64{nan, 1, 2, 3, 4, -inf, 1e300, 7}}
	require.Equal(t, [][]point{{{1, 1}, {2, 2}}, {{4, 4}}, {{7, 7}}}, s.segments())
}

// Any data gives a picture or an error, whatever the values.
func TestNothingPanics(t *testing.T) {
	values := rapid.OneOf(
		rapid.Float64(),
		rapid.Float64Range(-10, 10),
		rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1e15, -1e15, 1e-15, 3, math.Nextafter(3, 4)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		s := Series{
			Name:  rapid.SampledFrom([]string{"", "a name"}).Draw(t, "name"),
			X:     rapid.SliceOfN(values, n, n).Draw(t, "x"),
			Y:     rapid.SliceOfN(values, n, n).Draw(t, "y"),
			Style: rapid.SampledFrom([]Style{Line, Smoothed, Points}).Draw(t, "style"),
		}
		err := Figure{Series: []Series{s}}.Encode(io.Discard, "svg")
		if len(s.segments()) == 0 {
			require.ErrorContains(t, err, "no finite point")
			return
		}
		require.NoError(t, err)
	})
}

func TestTrendKeepsStraightLines(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100, maxPoints} {
		var line []point
		for i := 0; i < n; i++ {
			line = append(line, point{float64(i), 4 - 0.01*float64(i)})
		}
		for _, start := range []bool{true, false} {
			for i, p := range trend(line, start) {
				require.Equal(t, line[i].x, p.x)
				require.InDelta(t, line[i].y, p.y, 1e-9)
			}
		}
	}
}

func TestTrendRemovesNoise(t *testing.T) {
	s := training(2000)
	points := s.segments()[0]
	worst := 0.0
	for _, p := range trend(points, true) {
		if p.x > 300 {
			worst = max(worst, math.Abs(p.y-(2+3*math.Exp(-p.x/50))))
		}
	}
	require.Less(t, worst, 0.05, "half the noise's standard deviation")
}

func TestThinningKeepsSpikesAndMean(t *testing.T) {
	points := make([]point, 50_000)
	for i := range points {
		points[i] = point{float64(i), 1}
	}
	points[31_234].y = 9
	points[40_000].y = -7
	thin := extremes(points)
	require.LessOrEqual(t, len(thin), maxPoints)
	require.Contains(t, thin, points[31_234])
	require.Contains(t, thin, points[40_000])

	sum := 0.0
	mean := means(points)
	for _, p := range mean {
		sum += p.y
	}
	require.Len(t, mean, maxPoints)
	require.InDelta(t, 1+(9-1-7-1)/50_000.0, sum/float64(len(mean)), 1e-5)
}

func TestTicks(t *testing.T) {
	tests := []struct {
		lo, hi float64
		n      int
		want   []string
	}{
		{0, 400, 9, []string{"0", "50", "100", "150", "200", "250", "300", "350", "400"}},
		{2.2, 5.3, 8, []string{"2.5", "3.0", "3.5", "4.0", "4.5", "5.0"}},
		{-1, 1, 4, []string{"-1.0", "-0.5", "0", "0.5", "1.0"}},
		{0, 4.1e6, 4, []string{"0", "2M", "4M"}},
		{10_000, 50_000, 4, []string{"10k", "20k", "30k", "40k", "50k"}},
		{0.001, 0.002, 4, []string{"0.00100", "0.00125", "0.00150", "0.00175", "0.00200"}},
	}
	for _, tt := range tests {
		var got []string
		for _, tick := range ticks(tt.n)(tt.lo, tt.hi) {
			got = append(got, tick.Label)
		}
		require.Equal(t, tt.want, got)
	}
}
