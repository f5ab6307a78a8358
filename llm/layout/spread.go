package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A spread is the number of layers per place in order, the places of the embedding and the output, and the layers whose
// experts are on the CPU although the layer is elsewhere.
type spread struct {
	counts            []int
	embedding, output int
	experts           []int
}

// of returns the place of a layer.
func (s spread) of(layer int) int {
	for place, n := range s.counts {
		if layer < n {
			return place
		}
		layer -= n
	}
	return s.output // beyond the last layer
}

// A search finds the fitting spread with the most layers outside of the CPU. Places are numbers here, so that no device
// is needed.
type search struct {
	places, cpu, layers int
	tied                bool
	mixtures            []int     // layers with experts
	free                []int64   // per place; ignored for the CPU
	split               []float64 // nil means in proportion to free
	splitsAll           bool      // the split includes the CPU
	want                *int      // requested number of layers outside of the CPU
	need                func(spread) ([]int64, error)
	name                func(place int) string
}

// A candidate is a spread and the memory it needs.
type candidate struct {
	spread
	need  []int64
	short *ShortageError // nil if it fits
}

func (s *search) run() (*candidate, error) {
	if err := s.checkSplit(); err != nil {
		return nil, err
	}
	switch {
	case s.places == 1:
		c, _, _, err := s.try(s.at([]int{s.layers}, false, 0), nil)
		return c, err
	case s.splitsAll:
		c, err := s.fewestExperts(s.fixed)
		if err == nil && c.short != nil {
			err = c.short
		}
		return c, err
	case s.want != nil:
		return s.wanted(min(*s.want, s.layers))
	}
	c, err := s.of(s.layers)
	if err != nil || c.short == nil {
		return c, err
	}
	return s.most(c)
}

func (s *search) checkSplit() error {
	sum := 0.
	for _, part := range s.split {
		if part < 0 || math.IsNaN(part) || math.IsInf(part, 0) {
			return fmt.Errorf("the split has a part of %v; parts are numbers of at least 0", part)
		}
		sum += part
	}
	switch {
	case s.split != nil && sum == 0:
		return errors.New("the parts of the split add up to 0")
	case s.splitsAll && s.want != nil:
		return errors.New("the split has a part for the CPU, so it decides how many layers devices get; leave the number of layers out")
	}
	return nil
}

// of returns a spread with n layers outside of the CPU and the fewest experts on the CPU.
func (s *search) of(n int) (*candidate, error) {
	return s.fewestExperts(func(experts int) (*candidate, error) {
		if n == s.layers {
			return s.whole(experts)
		}
		return s.with(n, true, experts)
	})
}

// fewestExperts returns the spread with the smallest number of layers whose experts are on the CPU. If none fits, even
// with all experts there, the result says what is missing.
func (s *search) fewestExperts(at func(experts int) (*candidate, error)) (*candidate, error) {
	best, err := at(0)
	if err != nil || best.short == nil || len(s.mixtures) == 0 {
		return best, err
	}
	low, high := 0, len(s.mixtures) // low does not fit
	if best, err = at(high); err != nil || best.short != nil {
		return best, err
	}
	for high = len(best.experts); high-low > 1; {
		k := (low + high) / 2
		c, err := at(k)
		switch {
		case err != nil:
			return nil, err
		case c.short == nil:
			best, high = c, k
		default:
			low = k
		}
	}
	return best, nil
}

// whole puts all layers on devices, with embedding and output, or without the one that the CPU can take over.
func (s *search) whole(experts int) (*candidate, error) {
	c, err := s.with(s.layers, false, experts)
	if err != nil || c.short == nil || s.tied && s.cpu == 0 {
		return c, err
	}
	relieved, err := s.with(s.layers, true, experts)
	if err == nil && relieved.short == nil {
		return relieved, nil
	}
	return c, err
}

// wanted returns a spread with n layers outside of the CPU. If it does not fit, the error says how many do.
func (s *search) wanted(n int) (*candidate, error) {
	c, err := s.of(n)
	if err != nil || c.short == nil {
		return c, err
	}
	short := c.short
	if c, err = s.most(c); err == nil {
		short.Fit = s.beside(c.counts)
		return nil, short
	}
	var none *ShortageError
	if errors.As(err, &none) {
		err = short
	}
	return nil, err
}

// most returns the fitting spread with the most layers outside of the CPU, given one that has too many. Experts may
// stay on the CPU: they are the largest part of a layer, and a token needs few of them.
func (s *search) most(tooMany *candidate) (*candidate, error) {
	low, high := 0, s.beside(tooMany.counts) // low fits, high does not
	least := tooMany
	for high-low > 1 {
		n := (low + high) / 2
		c, err := s.with(n, true, len(s.mixtures))
		switch {
		case err != nil:
			return nil, err
		case c.short == nil:
			low = n
		default:
			least, high = c, n
		}
	}
	if low == 0 {
		return nil, least.short
	}
	return s.of(low)
}

// beside returns the number of layers outside of the CPU.
func (s *search) beside(counts []int) int { return s.layers - counts[s.cpu] }

// fixed returns the spread in which the split covers all layers.
func (s *search) fixed(experts int) (*candidate, error) {
	c, _, _, err := s.try(s.at(apportion(s.layers, s.split), false, experts), nil)
	return c, err
}

// with returns a spread with n layers outside of the CPU, and the experts of a number of layers on the CPU. Layers are
// distributed in the proportions of the split or, without one, of free memory; then layers move from places with too
// little memory to others. If relieved, the CPU also takes the embedding, or the output if it is the last place.
func (s *search) with(n int, relieved bool, experts int) (*candidate, error) {
	weights := slices.Clone(s.split)
	if weights == nil {
		weights = make([]float64, s.places)
		for i, free := range s.free {
			weights[i] = float64(max(1, free))
		}
	}
	weights[s.cpu] = 0
	counts := apportion(n, weights)
	counts[s.cpu] = s.layers - n
	full := make([]bool, s.places) // places that once had too many layers
	for {
		c, over, roomiest, err := s.try(s.at(counts, relieved, experts), full)
		if err != nil || c.short == nil || s.split != nil || roomiest < 0 || counts[over] == 0 {
			return c, err
		}
		full[over] = true
		counts = slices.Clone(counts)
		counts[over]--
		counts[roomiest]++
	}
}

// at returns the spread with the given counts, and with the experts of the first `experts` mixtures on the CPU.
func (s *search) at(counts []int, relieved bool, experts int) spread {
	sp := spread{counts: counts}
	has := func(n int) bool { return n > 0 }
	sp.embedding = slices.IndexFunc(counts, has)
	for i, n := range counts {
		if n > 0 {
			sp.output = i
		}
	}
	if relieved && s.cpu == 0 {
		sp.embedding = s.cpu
	} else if relieved {
		sp.output = s.cpu
	}
	for _, layer := range s.mixtures {
		if len(sp.experts) < experts && sp.of(layer) != s.cpu {
			sp.experts = append(sp.experts, layer)
		}
	}
	return sp
}

// try returns a spread's candidate, the place that lacks the most memory, and the place with the most room that is not
// full; −1 means none.
func (s *search) try(sp spread, full []bool) (c *candidate, over, roomiest int, err error) {
	need, err := s.need(sp)
	if err != nil {
		return nil, 0, 0, err
	}
	c, over, roomiest = &candidate{spread: sp, need: need}, -1, -1
	for i := range s.places {
		lack := need[i] - s.free[i]
		switch {
		case i == s.cpu:
		case lack > 0 && (over < 0 || lack > need[over]-s.free[over]):
			over = i
		case lack < 0 && (full == nil || !full[i]) && (roomiest < 0 || lack < need[roomiest]-s.free[roomiest]):
			roomiest = i
		}
	}
	if over >= 0 {
		c.short = &ShortageError{Device: s.name(over), Layers: s.beside(sp.counts), WithoutExperts: len(sp.experts) > 0, Need: need[over], Free: s.free[over]}
	}
	return c, over, roomiest, nil
}

// apportion divides n in the proportions of weights, by the largest remainder method.
func apportion(n int, weights []float64) []int {
	sum := 0.
	for _, w := range weights {
		sum += w
	}
	counts, rest := make([]int, len(weights)), n
	remainders := make([]float64, len(weights))
	order := make([]int, len(weights))
	for i, w := range weights {
		exact := float64(n) * w / sum
		counts[i] = int(exact)
		remainders[i], order[i] = exact-float64(counts[i]), i
		rest -= counts[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(remainders[j], remainders[i]) })
	for _, i := range order[:rest] {
		counts[i]++
	}
	return counts
}

// describe lists the contents of each place, in the order of the model.
func (s spread) describe(layers int, tied bool, cpu int, names []string) string {
	var parts []string
	first := 0
	for i, n := range s.counts {
		var has []string
		embedding, output := s.embedding == i && !tied, s.output == i
		if embedding {
			has = append(has, "the embedding")
		}
		switch {
		case n == layers && n > 1:
			has = append(has, "all layers")
		case n > 0:
			has = append(has, layerRange(first, first+n-1))
		}
		if k := len(s.experts); k > 0 && i == cpu {
			has = append(has, "the experts of "+layerRange(s.experts[0], s.experts[k-1]))
		}
		if output {
			has = append(has, "the output")
		}
		first += n
		switch {
		case len(has) == 0:
		case n == layers && output && (embedding || tied) && s.experts == nil:
			return "the whole model is on " + names[i]
		default:
			parts = append(parts, join(has, ", ", " and ")+" on "+names[i])
		}
	}
	return join(parts, ", ", ", ")
}

func layerRange(first, last int) string {
	if first == last {
		return fmt.Sprintf("layer %d", first)
	}
	return fmt.Sprintf("layers %d-%d", first, last)
}

// join joins a list, with another separator before the last element.
func join(list []string, between, last string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	n := len(list) - 1
	return strings.Join(list[:n], between) + last + list[n]
}
