package refmodel

import "fmt"

// NumericGradient returns dLoss/dparam of the elements at the given indices of
// a parameter's data (all of them when there are none) by central differences
// with step h; 1e-4 suits weights around 1. The parameter is changed in place
// and put back, so nothing else may use the model meanwhile.
func (m *Model) NumericGradient(batch []Sequence, name string, h float64, indices ...int) ([]float64, error) {
	total, err := m.checkBatch(batch)
	if err != nil {
		return nil, err
	}
	w, err := m.Weight(name)
	if err != nil {
		return nil, err
	}
	if len(indices) == 0 {
		for i := range w.Data {
			indices = append(indices, i)
		}
	}
	grad := make([]float64, len(indices))
	for n, i := range indices {
		if i < 0 || i >= len(w.Data) {
			return nil, fmt.Errorf("refmodel: element %d of %s, which has %d", i, name, len(w.Data))
		}
		old := w.Data[i]
		w.Data[i] = old + h
		up := m.loss(batch)
		w.Data[i] = old - h
		down := m.loss(batch)
		w.Data[i] = old
		grad[n] = (up - down) / (2 * h * total)
	}
	return grad, nil
}
