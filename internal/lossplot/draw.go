package lossplot

import (
	"bytes"
	"image/color"
	"io"
	"math"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The picture has 900 by 500 pixels at the 96 dots an inch of a browser.
const (
	dotsPerInch = 96
	width       = vg.Length(900) * vg.Inch / dotsPerInch
	height      = vg.Length(500) * vg.Inch / dotsPerInch
	margin      = vg.Length(12)
)

var (
	ink  = color.NRGBA{0x33, 0x33, 0x33, 0xff}
	soft = color.NRGBA{0xe3, 0xe3, 0xe3, 0xff}

	// Okabe and Ito's colours without yellow: people who do not see all
	// colours can tell them apart, also on white.
	palette = []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, // blue
		{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		{0x00, 0x9e, 0x73, 0xff}, // bluish green
		{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
		{0xe6, 0x9f, 0x00, 0xff}, // orange
		{0x56, 0xb4, 0xe9, 0xff}, // sky blue
		{0x00, 0x00, 0x00, 0xff}, // black
	}
	glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
)

func (f Figure) encodePNG(w io.Writer) error {
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	f.draw(canvas)
	_, err := canvas.WriteTo(w)
	return err
}

func (f Figure) encodeSVG(w io.Writer) error {
	canvas := vgsvg.New(width, height)
	f.draw(canvas)
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// A viewer without this font takes one of the same widths instead of a
	// serif one. Embedding it would add half a megabyte.
	const family = "font-family:Liberation Sans"
	out := bytes.ReplaceAll(svg.Bytes(), []byte(family), []byte(family+",Arimo,Arial,Helvetica,sans-serif"))
	_, err := w.Write(out)
	return err
}

// draw lays the figure out on a canvas of any format.
func (f Figure) draw(canvas vg.CanvasSizer) {
	p := plot.New()
	p.Title.Text = f.Title
	p.Title.Padding = 10
	setFont(&p.Title.TextStyle, 13, stdfont.WeightBold)
	styleAxis(&p.X, f.XLabel, 9)
	styleAxis(&p.Y, f.YLabel, 8)

	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = soft, soft
	grid.Horizontal.Width, grid.Vertical.Width = 0.75, 0.75
	p.Add(grid)

	legend := plot.NewLegend()
	markers := 0
	for i, s := range f.Series {
		shape := glyphs[markers%len(glyphs)]
		if s.Style == Points {
			markers++
		}
		thumbs := addSeries(p, s, palette[i%len(palette)], shape)
		if s.Name != "" {
			legend.Add(s.Name, thumbs...)
		}
	}
	x, y := f.ranges()
	p.X.Min, p.X.Max = x.lo, x.hi
	p.Y.Min, p.Y.Max = y.lo, y.hi
	p.Add(legendBox{legend, f.rises()})

	// The margin is white too, or it would be dark on a dark page.
	c := draw.New(canvas)
	c.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	p.Draw(draw.Crop(c, margin, -1.5*margin, margin, -margin))
}

// ranges are those of all points, so that nothing is cut off. The horizontal
// one starts and ends with the data.
func (f Figure) ranges() (x, y span) {
	x = span{math.Inf(1), math.Inf(-1)}
	y = x
	for _, s := range f.Series {
		for _, segment := range s.segments() {
			for _, p := range segment {
				x = span{min(x.lo, p.x), max(x.hi, p.x)}
				y = span{min(y.lo, p.y), max(y.hi, p.y)}
			}
		}
	}
	x, y = x.pad(0.01), y.pad(0.05)
	if f.FromZero && y.lo < y.hi {
		y.lo = min(0, y.lo)
	}
	return x, y
}

func setFont(style *text.Style, size font.Length, weight stdfont.Weight) {
	style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size, Weight: weight}
	style.Color = ink
}

func styleAxis(axis *plot.Axis, label string, marks int) {
	axis.Label.Text = label
	axis.Label.Padding = 5
	setFont(&axis.Label.TextStyle, 11, stdfont.WeightNormal)
	setFont(&axis.Tick.Label, 10, stdfont.WeightNormal)
	axis.Color = ink
	axis.Tick.Color = ink
	axis.Tick.Length = 4
	axis.Padding = 0
	axis.Tick.Marker = ticks(marks)
}

// addSeries adds a series to the plot and returns what its legend shows.
func addSeries(p *plot.Plot, s Series, c color.NRGBA, shape draw.GlyphDrawer) []plot.Thumbnailer {
	faint := c
	faint.A = 0x48
	strong := draw.LineStyle{Color: c, Width: 1.6}
	marker := draw.GlyphStyle{Color: c, Radius: 3.2, Shape: shape}
	dot := draw.GlyphStyle{Color: c, Radius: 2.4, Shape: draw.CircleGlyph{}}

	segments := s.segments()
	if s.Style == Smoothed {
		for _, segment := range segments {
			addLine(p, extremes(segment), draw.LineStyle{Color: faint, Width: 0.8})
		}
	}
	for i, segment := range segments {
		switch s.Style {
		case Smoothed:
			addLine(p, trend(segment, i == 0), strong)
		case Points:
			addLine(p, segment, draw.LineStyle{Color: c, Width: 1})
			p.Add(&plotter.Scatter{XYs: coordinates(segment), GlyphStyle: marker})
		default:
			addLine(p, extremes(segment), strong)
		}
		if len(segment) == 1 && s.Style != Points {
			p.Add(&plotter.Scatter{XYs: coordinates(segment), GlyphStyle: dot})
		}
	}

	line := &plotter.Line{LineStyle: strong}
	if s.Style == Points {
		line.Width = 1
		return []plot.Thumbnailer{line, &plotter.Scatter{GlyphStyle: marker}}
	}
	return []plot.Thumbnailer{line}
}

func addLine(p *plot.Plot, points []point, style draw.LineStyle) {
	if len(points) > 1 {
		p.Add(&plotter.Line{XYs: coordinates(points), LineStyle: style})
	}
}

func coordinates(points []point) plotter.XYs {
	xys := make(plotter.XYs, len(points))
	for i, p := range points {
		xys[i] = plotter.XY{X: p.x, Y: p.y}
	}
	return xys
}

// rises tells whether the highest point is in the right half.
func (f Figure) rises() bool {
	highest := point{y: math.Inf(-1)}
	for _, s := range f.Series {
		for _, segment := range s.segments() {
			for _, p := range segment {
				if p.y > highest.y {
					highest = p
				}
			}
		}
	}
	x, _ := f.ranges()
	return highest.x > (x.lo+x.hi)/2
}

// legendBox draws the legend over the data, in the upper corner that the curves
// leave free, on a ground that hides what it covers.
type legendBox struct {
	plot.Legend
	left bool
}

func (l legendBox) Plot(c draw.Canvas, _ *plot.Plot) {
	const inset, padding = vg.Length(8), vg.Length(7)
	setFont(&l.TextStyle, 10.5, stdfont.WeightNormal)
	l.TextStyle.Handler = plot.DefaultTextHandler
	l.Top, l.Left = true, true
	l.ThumbnailWidth = 24
	l.Legend.Padding = 5
	l.YPosition = draw.PosCenter

	size := l.Rectangle(c).Size()
	if size.X == 0 {
		return
	}
	right := c.Max.X - inset
	if l.left {
		right = c.Min.X + inset + 2*padding + size.X
	}
	box := vg.Rectangle{
		Min: vg.Point{X: right - 2*padding - size.X, Y: c.Max.Y - inset - 2*padding - size.Y},
		Max: vg.Point{X: right, Y: c.Max.Y - inset},
	}
	corners := []vg.Point{box.Min, {X: box.Max.X, Y: box.Min.Y}, box.Max, {X: box.Min.X, Y: box.Max.Y}, box.Min}
	c.FillPolygon(color.NRGBA{0xff, 0xff, 0xff, 0xe0}, corners)
	c.StrokeLines(draw.LineStyle{Color: soft, Width: 0.75}, corners)
	l.Draw(draw.Crop(draw.Canvas{Canvas: c.Canvas, Rectangle: box}, padding, -padding, padding, -padding))
}
