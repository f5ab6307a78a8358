package lossplot

import "math"

// maxPoints is about two for each pixel column: more cannot be seen.
const maxPoints = 1600

// extremes thins a line out to its lowest and highest point in each stretch,
// so that spikes stay visible.
func extremes(points []point) []point {
	if len(points) <= maxPoints {
		return points
	}
	var out []point
	eachStretch(points, maxPoints/2, func(stretch []point) {
		low, high := 0, 0
		for i, p := range stretch {
			if p.y < stretch[low].y {
				low = i
			}
			if p.y > stretch[high].y {
				high = i
			}
		}
		out = append(out, stretch[min(low, high)])
		if low != high {
			out = append(out, stretch[max(low, high)])
		}
	})
	return out
}

// means thins a line out to the mean of each stretch.
func means(points []point) []point {
	if len(points) <= maxPoints {
		return points
	}
	var out []point
	eachStretch(points, maxPoints, func(stretch []point) {
		var sum point
		for _, p := range stretch {
			sum.x += p.x
			sum.y += p.y
		}
		n := float64(len(stretch))
		out = append(out, point{sum.x / n, sum.y / n})
	})
	return out
}

// eachStretch cuts points into n stretches of nearly equal length.
func eachStretch(points []point, n int, f func([]point)) {
	for i := 0; i < n; i++ {
		f(points[i*len(points)/n : (i+1)*len(points)/n])
	}
}

// trend smooths a line by local linear regression with Gaussian weights. A
// straight line stays what it is, up to both ends, where a moving average
// would lag behind. Loss falls fastest at the start of training, where wide
// averaging would hide it: there the smoothing begins narrow.
func trend(points []point, start bool) []point {
	points = means(points)
	width := max(float64(len(points))/40, 0.5)
	out := make([]point, len(points))
	for i := range points {
		w := width
		if start {
			w = min(width, 0.5+float64(i)/4)
		}
		out[i] = point{points[i].x, localFit(points, i, w)}
	}
	return out
}

// localFit is the value at points[i] of the line fitted to its neighbours,
// weighted by a Gaussian with standard deviation w in points.
func localFit(points []point, i int, w float64) float64 {
	reach := int(math.Ceil(4 * w))
	var sw, sd, sdd, sy, sdy float64
	for j := max(0, i-reach); j <= min(len(points)-1, i+reach); j++ {
		d := float64(j - i)
		weight := math.Exp(-d * d / (2 * w * w))
		y := points[j].y
		sw += weight
		sd += weight * d
		sdd += weight * d * d
		sy += weight * y
		sdy += weight * d * y
	}
	det := sw*sdd - sd*sd
	if det <= 0 { // a single point
		return points[i].y
	}
	return (sdd*sy - sd*sdy) / det
}
