package training

import (
	"bytes"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var gridColor = color.NRGBA{0xdd, 0xdd, 0xdd, 0xff}

// newPlot returns an empty plot with a grid. The legend is at the top because the curves fall.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{count: 10, whole: true}, roundTicks{count: 6}
	p.Title.Padding, p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(4), vg.Points(6)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(-8), vg.Points(-8)
	for _, font := range []*vg.Length{&p.Title.TextStyle.Font.Size, &p.Legend.TextStyle.Font.Size} {
		*font = vg.Points(12)
	}
	p.Title.TextStyle.Font.Variant, p.Legend.TextStyle.Font.Variant = "Sans", "Sans"
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Variant, axis.Tick.Label.Font.Variant = "Sans", "Sans"
		axis.Tick.Length = vg.Points(4)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid)
	return p
}

// drawPlot renders a plot with a margin. An SVG has dark colours if the reader prefers them.
func drawPlot(p *plot.Plot, format string) ([]byte, error) {
	canvas, err := draw.NewFormattedCanvas(9*vg.Inch, 5*vg.Inch, format)
	if err != nil {
		return nil, err
	}
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	const margin = 12
	p.Draw(draw.Crop(page, margin, -margin, margin, -margin))
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return nil, err
	}
	if format != "svg" {
		return picture.Bytes(), nil
	}
	const firstGroup = "<g "
	text := bytes.Replace(picture.Bytes(), []byte(firstGroup), []byte(darkStyle+firstGroup), 1)
	return bytes.ReplaceAll(text, []byte("Liberation Sans"), []byte("Liberation Sans,Arial,sans-serif")), nil
}

// darkStyle overrides the colours of an SVG's elements.
const darkStyle = `<style>
@media (prefers-color-scheme: dark) {
	text { fill: #e6edf3 }
	[style*="fill:#FFFFFF"] { fill: #0d1117 !important }
	[style*="stroke:#000000"] { stroke: #8b949e !important }
	[style*="stroke:#DDDDDD"] { stroke: #30363d !important }
	[style*="stroke:#0072B2"], [style*="stroke:#0071B1"] { stroke: #56b4e9 !important }
	[style*="stroke:#D55E00"] { stroke: #ff9a56 !important }
}
</style>
`

// roundTicks places at most count+1 ticks at multiples of 1, 2 or 5 times a power of ten.
type roundTicks struct {
	count int
	whole bool
}

// Ticks implements [plot.Ticker].
func (r roundTicks) Ticks(low, high float64) []plot.Tick {
	if !(high > low) || math.IsInf(high-low, 0) {
		return nil // the axis has no length
	}
	step := roundUpTo125((high - low) / float64(r.count))
	if r.whole {
		step = max(step, 1)
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	first := math.Ceil(low/step - 1e-9)
	var ticks []plot.Tick
	for i := range r.count + 1 {
		value := (first+float64(i))*step + 0 // not −0
		if value > high+1e-9*step {
			break
		}
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(value, 'f', digits, 64)})
	}
	return ticks
}

// roundUpTo125 rounds up to 1, 2 or 5 times a power of ten.
func roundUpTo125(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}
