// Package interop compares this project with stock llama.cpp, on files that
// the programs of this project wrote. Its tests carry the build tag interop;
// "make interop" fetches llama.cpp and runs them.
package interop
