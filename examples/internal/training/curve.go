package training

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/train"
)

// Colours of the curves: blue and vermilion, which people with any colour vision can distinguish.
var (
	blue      = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermilion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
)

// saveLossCurve draws training and validation losses as name.svg and name.png. The training loss is noisy from
// step to step: it is a faint line, with its trend over it.
func saveLossCurve(name string, training []train.StepMetrics, validation []train.Evaluation) error {
	faint := blue
	faint.A = 0x48

	p := newPlot()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Loss", "step", "cross-entropy, nats per token"
	losses := coordinates(training, stepLoss)
	noisy, err1 := plotter.NewLine(reduce(losses, extremes))
	smooth, err2 := plotter.NewLine(trend(losses))
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	noisy.Color = faint
	smooth.Color, smooth.Width = blue, vg.Points(1.6)
	p.Add(noisy, smooth)
	p.Legend.Add("training", smooth)
	if len(validation) > 0 {
		line, points, err := plotter.NewLinePoints(coordinates(validation, evalLoss))
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		line.Color, points.Color = vermilion, vermilion
		p.Add(line, points)
		p.Legend.Add("validation", line, points)
	}
	for _, format := range []string{".svg", ".png"} {
		if err := savePicture(p, name, format); err != nil {
			return err
		}
	}
	return nil
}

func savePicture(p *plot.Plot, name, format string) error {
	picture, err := drawPlot(p, format[1:])
	if err != nil {
		return err
	}
	return filelink.Replace(name+format, picture)
}

func coordinates[T any](list []T, point func(T) plotter.XY) plotter.XYs {
	var xys plotter.XYs
	for _, x := range list {
		xys = append(xys, point(x))
	}
	return xys
}

func stepLoss(m train.StepMetrics) plotter.XY { return plotter.XY{X: float64(m.Step), Y: m.Loss} }

func evalLoss(e train.Evaluation) plotter.XY { return plotter.XY{X: float64(e.Step), Y: e.Loss} }

// trend smooths a curve by local linear regression with Gaussian weights. A straight line stays unchanged up to
// both ends, where a moving average would lag. Loss falls fastest at the start of training, which a wide window
// would hide: there the window starts narrow.
func trend(curve plotter.XYs) plotter.XYs {
	curve = reduce(curve, mean)
	if len(curve) < 2 {
		return curve
	}
	width := max(float64(len(curve))/40, 0.5)
	smooth := make(plotter.XYs, len(curve))
	for i, at := range curve {
		sigma := min(width, 0.5+float64(i)/4)
		reach := int(math.Ceil(4 * sigma))
		var x, y, weights []float64
		for j := max(0, i-reach); j <= min(len(curve)-1, i+reach); j++ {
			d := float64(j-i) / sigma
			x, y, weights = append(x, curve[j].X), append(y, curve[j].Y), append(weights, math.Exp(-d*d/2))
		}
		intercept, slope := stat.LinearRegression(x, y, weights, false)
		smooth[i] = plotter.XY{X: at.X, Y: intercept + slope*at.X}
	}
	return smooth
}

// reduce shortens a long curve to bins of half a pixel.
func reduce(curve plotter.XYs, bin func(plotter.XYs) plotter.XYs) plotter.XYs {
	const bins = 1600
	if len(curve) <= bins {
		return curve
	}
	var short plotter.XYs
	for i := range bins {
		short = append(short, bin(curve[i*len(curve)/bins:(i+1)*len(curve)/bins])...)
	}
	return short
}

func mean(bin plotter.XYs) plotter.XYs {
	var sum plotter.XY
	for _, p := range bin {
		sum.X, sum.Y = sum.X+p.X, sum.Y+p.Y
	}
	n := float64(len(bin))
	return plotter.XYs{{X: sum.X / n, Y: sum.Y / n}}
}

// extremes keeps the spikes of a curve: the smallest and the largest value of a bin.
func extremes(bin plotter.XYs) plotter.XYs {
	byY := func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }
	first, second := slices.MinFunc(bin, byY), slices.MaxFunc(bin, byY)
	if first.X > second.X {
		first, second = second, first
	}
	return plotter.XYs{first, second}
}
