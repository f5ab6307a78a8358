package refmath

// ShortConv holds the operands of a convolution of each channel over a token and those before it: x [m, n, rows], kernel
// [taps, m], and tokens before x [m, b, rows], bias [m] and positions [n, rows], or nothing.
type ShortConv struct {
	X, Kernel, Before, Bias, Positions Tensor
	Step                               int64
	SiLU                               bool
}

// before is how many tokens come before x.
func (s ShortConv) before() int64 {
	if s.Before.Data == nil {
		return 0
	}
	return s.Before.Ne[1]
}

// at is the channel of a token of x, or of one before it, whose number is negative.
func (s ShortConv) at(channel, token, row int64) float64 {
	if token < 0 {
		return s.Before.At(channel, s.before()+token, row, 0)
	}
	return s.X.At(channel, token, row, 0)
}

// reach calls f for each result i, tap j and token that it multiplies, whose number is negative if it comes before x.
func (s ShortConv) reach(f func(channel, i, row, j, token int64)) {
	for row := range s.X.Ne[2] {
		for i := range s.X.Ne[1] {
			most := s.before() + i
			if s.Positions.Data != nil {
				most = min(most, max(0, int64(s.Positions.At(i, row, 0, 0))))
			}
			for j := int64(0); j < s.Kernel.Ne[0] && j*s.Step <= most; j++ {
				for channel := range s.X.Ne[0] {
					f(channel, i, row, j, i-j*s.Step)
				}
			}
		}
	}
}

func (s ShortConv) sums() Tensor {
	y := New(s.X.Ne[0], s.X.Ne[1], s.X.Ne[2])
	if s.Bias.Data != nil {
		for i := range y.Data {
			y.Data[i] = s.Bias.Data[int64(i)%s.X.Ne[0]]
		}
	}
	s.reach(func(channel, i, row, j, token int64) {
		y.Data[y.index(channel, i, row, 0)] += s.Kernel.At(s.Kernel.Ne[0]-1-j, channel, 0, 0) * s.at(channel, token, row)
	})
	return y
}

// ShortConvolution returns [m, n, rows].
func ShortConvolution(s ShortConv) Tensor {
	y := s.sums()
	if s.SiLU {
		y = Silu(y)
	}
	return y
}

// ShortConvolutionBack returns the gradient of x, given the gradient of the result.
func ShortConvolutionBack(dy Tensor, s ShortConv) Tensor {
	if s.SiLU {
		dy = SiluBack(dy, s.sums())
	}
	dx := New(s.X.Ne[:]...)
	s.reach(func(channel, i, row, j, token int64) {
		if token < 0 {
			return
		}
		dx.Data[dx.index(channel, token, row, 0)] += s.Kernel.At(s.Kernel.Ne[0]-1-j, channel, 0, 0) * dy.At(channel, i, row, 0)
	})
	return dx
}
