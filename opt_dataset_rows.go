package ggml

// NewDatasetOf makes a [Dataset] filled with F32 samples and labels: one slice per sample, all of
// one length, and one slice per label, all of one length. If labels is nil, the data set has none.
// The shard size is 1.
func NewDatasetOf(samples, labels [][]float32) (*Dataset, error) {
	if len(samples) == 0 {
		return nil, datasetError("there are no samples")
	}
	if labels != nil && len(labels) != len(samples) {
		return nil, datasetError("there are %d samples and %d labels; each sample has one label, of one or more elements", len(samples), len(labels))
	}
	data, size, err := joinRows("sample", samples)
	if err != nil {
		return nil, err
	}
	wanted, labelSize, err := joinRows("label", labels)
	if err != nil {
		return nil, err
	}
	d, err := NewDataset(DatasetOptions{Samples: int64(len(samples)), SampleSize: size, LabelSize: labelSize})
	if err != nil {
		return nil, err
	}
	if err = Write(d.data, data); err == nil && labels != nil {
		err = Write(d.labels, wanted)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// joinRows concatenates rows of one size.
func joinRows(what string, rows [][]float32) (all []float32, size int64, err error) {
	for i, row := range rows {
		if len(row) == 0 || len(row) != len(rows[0]) {
			return nil, 0, datasetError("%s %d has %d elements, the first has %d; all must have equally many, and at least 1", what, i, len(row), len(rows[0]))
		}
		all = append(all, row...)
	}
	if len(rows) > 0 {
		size = int64(len(rows[0]))
	}
	return all, size, nil
}
