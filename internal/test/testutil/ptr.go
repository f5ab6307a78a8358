package testutil

// Ptr returns a pointer to a value, for options whose default is nil.
func Ptr[T any](v T) *T { return &v }
