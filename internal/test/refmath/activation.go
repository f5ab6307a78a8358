package refmath

import "math"

// Tanh returns tanh a.
func Tanh(a Tensor) Tensor { return Map(a, math.Tanh) }

// Elu returns a where a > 0, else eᵃ − 1.
func Elu(a Tensor) Tensor {
	return Map(a, func(x float64) float64 {
		if x > 0 {
			return x
		}
		return math.Expm1(x)
	})
}

// Relu returns max(a, 0).
func Relu(a Tensor) Tensor { return Map(a, relu) }

// LeakyRelu returns a where a > 0, else slope·a.
func LeakyRelu(a Tensor, slope float64) Tensor {
	return Map(a, func(x float64) float64 { return max(x, 0) + slope*min(x, 0) })
}

// Sigmoid returns 1 / (1 + e⁻ᵃ).
func Sigmoid(a Tensor) Tensor { return Map(a, sigmoid) }

// Gelu returns the tanh approximation
// ½·a·(1 + tanh(√(2/π)·(a + 0.044715·a³))). ggml's CPU backend looks it up in
// a table of F16 values, so expect differences of about 1e-3.
func Gelu(a Tensor) Tensor { return Map(a, gelu) }

// GeluErf returns ½·a·(1 + erf(a/√2)).
func GeluErf(a Tensor) Tensor { return Map(a, geluErf) }

// GeluQuick returns a·sigmoid(1.702·a). ggml's CPU backend looks it up in a
// table of F16 values.
func GeluQuick(a Tensor) Tensor { return Map(a, geluQuick) }

// Silu returns a·sigmoid(a).
func Silu(a Tensor) Tensor { return Map(a, silu) }

// SiluBack returns dy·s·(1 + x·(1 − s)) with s = sigmoid(x): the gradient of
// Silu at x. All shapes are equal.
func SiluBack(dy, x Tensor) Tensor {
	sameShape("SiluBack", dy, x)
	return zip("SiluBack", dy, x, func(g, x float64) float64 {
		s := sigmoid(x)
		return g * s * (1 + x*(1-s))
	})
}

// GeluBack returns dy·(½(1 + t) + ½x·(1 − t²)·u') with t = tanh(u) and u = √(2/π)·(x +
// 0.044715·x³): the gradient of Gelu at x. All shapes are equal.
func GeluBack(dy, x Tensor) Tensor {
	sameShape("GeluBack", dy, x)
	return zip("GeluBack", dy, x, func(g, x float64) float64 {
		root := math.Sqrt(2 / math.Pi)
		t := math.Tanh(root * (x + 0.044715*x*x*x))
		return g * (0.5*(1+t) + 0.5*x*(1-t*t)*root*(1+3*0.044715*x*x))
	})
}

// Softplus returns log(1 + eᵃ), and a itself above 20, as ggml does.
func Softplus(a Tensor) Tensor { return Map(a, softplus) }

// HardSigmoid returns min(1, max(0, (a + 3)/6)).
func HardSigmoid(a Tensor) Tensor { return Map(a, hardSigmoid) }

// HardSwish returns a·min(1, max(0, (a + 3)/6)).
func HardSwish(a Tensor) Tensor {
	return Map(a, func(x float64) float64 { return x * hardSigmoid(x) })
}

// Xielu returns, with p = softplus(alphaP) and n = beta + softplus(alphaN),
// p·a² + beta·a where a > 0, else (expm1(min(a, eps)) − a)·n + beta·a.
func Xielu(a Tensor, alphaN, alphaP, beta, eps float64) Tensor {
	return FoldedXielu(a, beta+softplus(alphaN), softplus(alphaP), beta, eps)
}

// FoldedXielu is Xielu with given n and p.
func FoldedXielu(a Tensor, n, p, beta, eps float64) Tensor {
	return Map(a, func(x float64) float64 {
		if x > 0 {
			return p*x*x + beta*x
		}
		return (math.Expm1(min(x, eps))-x)*n + beta*x
	})
}

func relu(x float64) float64        { return max(x, 0) }
func sigmoid(x float64) float64     { return 1 / (1 + math.Exp(-x)) }
func silu(x float64) float64        { return x * sigmoid(x) }
func geluErf(x float64) float64     { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
func geluQuick(x float64) float64   { return x * sigmoid(1.702*x) }
func hardSigmoid(x float64) float64 { return min(1, max(0, (x+3)/6)) }

func gelu(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*x*(1+0.044715*x*x)))
}

func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// GLU names a gated linear unit: act(x)·g.
type GLU int

// The gated linear units, with ggml's numbers, and their activations.
const (
	ReGLU      GLU = 0 // Relu
	GeGLU      GLU = 1 // Gelu
	SwiGLU     GLU = 2 // Silu
	GeGLUErf   GLU = 4 // GeluErf
	GeGLUQuick GLU = 5 // GeluQuick
)

func (g GLU) activation() func(float64) float64 {
	f, ok := map[GLU]func(float64) float64{
		ReGLU: relu, GeGLU: gelu, SwiGLU: silu, GeGLUErf: geluErf, GeGLUQuick: geluQuick,
	}[g]
	check(ok, "GLU: unknown unit %d", g)
	return f
}

// Gate returns act(x)·g for a [2n, …], where x is the first half of each row
// and g the second; swapped exchanges the halves. Result [n, …].
func Gate(unit GLU, a Tensor, swapped bool) Tensor {
	check(a.Ne[0]%2 == 0, "Gate: rows of odd length in %v", a.Ne)
	x, g := halves(a)
	if swapped {
		x, g = g, x
	}
	return GateSplit(unit, x, g)
}

// GateSplit returns act(x)·g for x and g of the same shape.
func GateSplit(unit GLU, x, g Tensor) Tensor {
	sameShape("GateSplit", x, g)
	act := unit.activation()
	return zip("GateSplit", x, g, func(x, g float64) float64 { return act(x) * g })
}

// SwiGLUOAI returns x'·sigmoid(alpha·x')·(g' + 1) with x' = min(x, limit) and
// g' = g clamped to ±limit. x and g have the same shape.
func SwiGLUOAI(x, g Tensor, alpha, limit float64) Tensor {
	sameShape("SwiGLUOAI", x, g)
	return zip("SwiGLUOAI", x, g, func(x, g float64) float64 {
		x, g = min(x, limit), min(max(g, -limit), limit)
		return x * sigmoid(alpha*x) * (g + 1)
	})
}

// SwiGLUClamp returns silu(min(x, limit))·g' with g' = g clamped to ±limit. x and
// g have the same shape.
func SwiGLUClamp(x, g Tensor, limit float64) Tensor {
	sameShape("SwiGLUClamp", x, g)
	return zip("SwiGLUClamp", x, g, func(x, g float64) float64 {
		return silu(min(x, limit)) * min(max(g, -limit), limit)
	})
}

// GLUBack returns the gradients of act(x)·g with respect to x and to g, of SwiGLU or
// GeGLU. All shapes are equal.
func GLUBack(unit GLU, dy, x, g Tensor) (dx, dg Tensor) {
	back, ok := map[GLU]func(dy, x Tensor) Tensor{GeGLU: GeluBack, SwiGLU: SiluBack}[unit]
	check(ok, "GLUBack: unit %d has no gradient here", unit)
	return back(Mul(dy, g), x), Mul(dy, Map(x, unit.activation()))
}

// halves splits each row of a into its first and second half.
func halves(a Tensor) (first, second Tensor) {
	n := a.Ne[0] / 2
	ne := [4]int64{n, a.Ne[1], a.Ne[2], a.Ne[3]}
	stride := [3]int64{a.Ne[0], a.Ne[0] * a.Ne[1], a.Ne[0] * a.Ne[1] * a.Ne[2]}
	return View(a, ne, stride, 0), View(a, ne, stride, n)
}
