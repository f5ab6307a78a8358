package main

import (
	"math"
	"math/rand/v2"
)

// glyphs has two styles of each digit.
var glyphs = [digits][2][9]string{
	{
		{"..###..", ".#...#.", "#.....#", "#.....#", "#.....#", "#.....#", "#.....#", ".#...#.", "..###.."},
		{"...##..", "..#..#.", ".#...#.", ".#...#.", ".#...#.", ".#...#.", ".#...#.", ".#..#..", "..##..."},
	},
	{
		{"...#...", "..##...", ".#.#...", "...#...", "...#...", "...#...", "...#...", "...#...", ".#####."},
		{"....#..", "...##..", "..#.#..", ".#..#..", "....#..", "....#..", "....#..", "....#..", "....#.."},
	},
	{
		{".####..", "#....#.", "......#", "......#", ".....#.", "...##..", "..#....", ".#.....", "#######"},
		{"..###..", ".#...#.", ".....#.", ".....#.", "....#..", "...#...", "..#....", ".#...#.", ".####.."},
	},
	{
		{".####..", "#....#.", "......#", ".....#.", "..###..", ".....#.", "......#", "#....#.", ".####.."},
		{"######.", "....#..", "...#...", "..##...", "....#..", ".....#.", ".....#.", "#....#.", ".####.."},
	},
	{
		{"....##.", "...#.#.", "..#..#.", ".#...#.", "#....#.", "#######", ".....#.", ".....#.", ".....#."},
		{".#...#.", ".#...#.", "#....#.", "#....#.", "#######", "....#..", "....#..", "....#..", "....#.."},
	},
	{
		{"#######", "#......", "#......", "#####..", ".....#.", "......#", "......#", "#....#.", ".####.."},
		{"..####.", "..#....", ".#.....", ".###...", "....#..", ".....#.", ".....#.", "#...#..", ".###..."},
	},
	{
		{"...##..", "..#....", ".#.....", "#......", "#.###..", "##...#.", "#.....#", ".#...#.", "..###.."},
		{"....#..", "...#...", "..#....", "..#....", ".####..", ".#...#.", ".#...#.", ".#...#.", "..###.."},
	},
	{
		{"#######", "......#", ".....#.", ".....#.", "....#..", "....#..", "...#...", "...#...", "..#...."},
		{".#####.", "#....#.", ".....#.", "....#..", "..####.", "...#...", "...#...", "..#....", "..#...."},
	},
	{
		{"..###..", ".#...#.", ".#...#.", ".#...#.", "..###..", ".#...#.", "#.....#", "#.....#", ".#####."},
		{"..##...", ".#..#..", ".#..#..", "..##...", "..##...", ".#..#..", "#....#.", "#....#.", ".####.."},
	},
	{
		{"..###..", ".#...#.", "#.....#", ".#...##", "..###.#", "......#", ".....#.", "....#..", "..##..."},
		{"..###..", ".#...#.", ".#...#.", ".#..##.", "..##.#.", ".....#.", ".....#.", ".....#.", "....#.."},
	},
}

// ink interpolates how dark a glyph is between its dots, which have integer coordinates.
func ink(glyph *[9]string, x, y float64) float64 {
	x0, y0 := math.Floor(x), math.Floor(y)
	sum := 0.0
	for dy := range 2 {
		for dx := range 2 {
			row, column := int(y0)+dy, int(x0)+dx
			if row < 0 || row >= len(glyph) || column < 0 || column >= len(glyph[0]) || glyph[row][column] != '#' {
				continue
			}
			sum += (1 - math.Abs(x-float64(column))) * (1 - math.Abs(y-float64(row)))
		}
	}
	return math.Min(1, 1.6*sum)
}

// drawSet draws n digits, each rotated, scaled, slanted, moved and with noise. The same seed gives the same
// digits.
func drawSet(n int, seed uint64) *set {
	r := rand.New(rand.NewPCG(seed, 28))
	s := &set{}
	for range n {
		label := byte(r.IntN(digits))
		s.labels = append(s.labels, label)
		s.images = append(s.images, drawDigit(r, &glyphs[label][r.IntN(2)])...)
	}
	return s
}

func drawDigit(r *rand.Rand, glyph *[9]string) []float32 {
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	sin, cos := math.Sincos(between(-0.25, 0.25))
	width, height := between(1.7, 2.6), between(1.8, 2.5) // pixels per dot
	slant := between(-0.2, 0.2)
	moveX, moveY := between(-3, 3), between(-3, 3)
	noise := between(0, 0.15)
	image := make([]float32, pixels)
	for i := range image {
		// Maps the pixel back to the glyph.
		x, y := float64(i%side)-13.5-moveX, float64(i/side)-13.5-moveY
		x, y = cos*x+sin*y, cos*y-sin*x
		x += slant * y
		dark := ink(glyph, x/width+3, y/height+4) + noise*r.NormFloat64()
		image[i] = float32(max(0, min(1, dark)))
	}
	return image
}
