/* epilogue - what `linear` of a backend (ops/backend/backend.h) does with the results y of a layer.
 */
#ifndef MR_OPS_BACKEND_EPILOGUE_H
#define MR_OPS_BACKEND_EPILOGUE_H

enum mr_epilogue {
    MR_STORE, /* out = y, floats */
    MR_ADD,   /* out += y, floats */
    /* The columns of y alternate gate, up: out = activation(gate) * up, numbers. */
    MR_SILU_MUL,
    MR_GELU_MUL, /* with the error function */
    MR_GELU_TANH_MUL,
    MR_SWIGLU_OAI_MUL, /* gate at most 7, up in [-7, 7]: gate * sigmoid(1.702 gate) * (up + 1) */
    /* out = activation(y), numbers */
    MR_GELU,
    MR_GELU_TANH,
    MR_SILU,
    MR_RELU,
    MR_RELU2, /* max(y, 0)^2 */
    /* xIELU (Huang and Schlag, "Deriving Activation Functions Using Integration", 2024), with the
     * four numbers of the layer's curve: c[0] y^2 + c[2] y above 0, else
     * c[1] (exp(min(y, c[3])) - 1 - y) + c[2] y. */
    MR_XIELU,
};

#endif
