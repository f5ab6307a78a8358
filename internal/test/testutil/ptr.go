package testutil

// Ptr is a pointer to a value, for options of which nil is the default.
func Ptr[T any](v T) *T { return &v }
