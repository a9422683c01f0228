/* FMI 3.0, Co-Simulation, over the compiled step of a machine. model_data.h, made for the machine, has its sizes, its
 * constants and its start. Memory is taken when an instance or a saved state is made, never in a step.
 *
 * Value references: 0 time, then inputs, outputs, parameters, states, in the machine's order.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model_data.h"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, ERROR = 3 };

typedef void (*log_message)(void *environment, int status, const char *category, const char *message);

typedef struct { /* everything that the next step depends on, and what can be asked for after it */
    double time;
    double inputs[N_INPUTS + 1];
    double outputs[N_OUTPUTS + 1];
    double params[N_PARAMS + 1];
    double state[N_STATES + 1];
} saved;

typedef struct {
    saved now;
    double used[N_INPUTS + 1]; /* the inputs of a step: what is not given is NaN, and the step puts its own there */
    double work[N_WORK + 1];
    void *environment;
    log_message log;
} instance;

#define ARRAY(at, n, type) NULL, NULL, (int64_t)(n), (int64_t)sizeof(type), (void *)(at), (int64_t)(n), (int64_t)sizeof(type)
#define PARAMETER void *, void *, int64_t, int64_t, void *, int64_t, int64_t
extern int32_t tandem_machine_step(void *, void *, PARAMETER, PARAMETER, PARAMETER, PARAMETER, PARAMETER, PARAMETER,
                                   double);

static int fail(instance *it, const char *why) {
    if (it && it->log) it->log(it->environment, ERROR, "logStatusError", why);
    return ERROR;
}

static int step(instance *it) {
    void *result = NULL, *exception = NULL;
    memcpy(it->used, it->now.inputs, sizeof it->used);
    int32_t status = tandem_machine_step(&result, &exception, ARRAY(it->now.state, N_STATES, double),
                                         ARRAY(it->used, N_INPUTS, double), ARRAY(it->now.params, N_PARAMS, double),
                                         ARRAY(model_ints, N_INTS, int32_t), ARRAY(model_floats.number, N_FLOATS, double),
                                         ARRAY(it->work, N_WORK, double), STEP_SIZE);
    if (status != 0 && status != -2) return fail(it, "the step failed");
    for (int k = 0; k < N_STATES; k++)
        if (!(fabs(it->now.state[k]) <= BOUND)) return fail(it, "the model diverged: a state left its bounds");
    for (int k = 0; k < N_OUTPUTS; k++)
        if (!(fabs(it->work[k]) <= BOUND)) return fail(it, "the model diverged: an output left its bounds");
    memcpy(it->now.outputs, it->work, N_OUTPUTS * sizeof(double));
    return OK;
}

static void restart(instance *it) {
    memset(it->work, 0, sizeof it->work);
    it->now.time = 0.0;
    memcpy(it->now.inputs, model_inputs.number, N_INPUTS * sizeof(double));
    memcpy(it->now.outputs, model_outputs.number, N_OUTPUTS * sizeof(double));
    memcpy(it->now.params, model_params.number, N_PARAMS * sizeof(double));
    memcpy(it->now.state, model_state.number, N_STATES * sizeof(double));
}

/* ---- instances ---------------------------------------------------------------------------------------------------- */

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, _Bool visible,
                                         _Bool logging, _Bool events, _Bool early, const uint32_t *intermediate,
                                         size_t count, void *environment, log_message log, void *update) {
    (void)name, (void)resources, (void)visible, (void)logging, (void)early, (void)intermediate, (void)count, (void)update;
    if (!token || strcmp(token, TOKEN) || events) {
        if (log) log(environment, ERROR, "logStatusError", events ? "this FMU has no event mode" : "of another FMU: instantiationToken");
        return NULL;
    }
    instance *it = (instance *)calloc(1, sizeof *it);
    if (!it) return NULL;
    it->environment = environment;
    it->log = log;
    restart(it);
    return it;
}

EXPORT void *fmi3InstantiateModelExchange(void) { return NULL; }
EXPORT void *fmi3InstantiateScheduledExecution(void) { return NULL; }
EXPORT void fmi3FreeInstance(void *it) { free(it); }

EXPORT int fmi3EnterInitializationMode(instance *it, _Bool tolerant, double tolerance, double start, _Bool ends, double stop) {
    (void)tolerant, (void)tolerance, (void)ends, (void)stop;
    it->now.time = start;
    return OK;
}

EXPORT int fmi3ExitInitializationMode(instance *it) { return (void)it, OK; }
EXPORT int fmi3Terminate(instance *it) { return (void)it, OK; }
EXPORT int fmi3SetDebugLogging(instance *it, _Bool on, size_t n, const char *const *categories) {
    return (void)it, (void)on, (void)n, (void)categories, OK;
}

EXPORT int fmi3Reset(instance *it) {
    restart(it);
    return OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

EXPORT int fmi3GetFloat64(instance *it, const uint32_t *references, size_t n, double *values, size_t count) {
    if (n != count) return fail(it, "as many values as references are expected");
    for (size_t k = 0; k < n; k++) {
        size_t r = references[k];
        if (r == 0) values[k] = it->now.time;
        else if ((r -= 1) < N_INPUTS) values[k] = it->now.inputs[r];
        else if ((r -= N_INPUTS) < N_OUTPUTS) values[k] = it->now.outputs[r];
        else if ((r -= N_OUTPUTS) < N_LIVE) values[k] = it->now.params[model_live[r]];
        else if ((r -= N_LIVE) < N_STATES) values[k] = it->now.state[r];
        else return fail(it, "no variable has this value reference");
    }
    return OK;
}

EXPORT int fmi3SetFloat64(instance *it, const uint32_t *references, size_t n, const double *values, size_t count) {
    if (n != count) return fail(it, "as many values as references are expected");
    for (size_t k = 0; k < n; k++) {
        size_t r = (size_t)references[k] - 1;
        if (references[k] && r < N_INPUTS) it->now.inputs[r] = values[k];
        else if (references[k] && r >= N_INPUTS + N_OUTPUTS && (r -= N_INPUTS + N_OUTPUTS) < N_LIVE) {
            if (!(values[k] >= model_low.number[r] && values[k] <= model_high.number[r]))
                return fail(it, "a parameter is outside its min and max");
            it->now.params[model_live[r]] = values[k];
        } else return fail(it, "only inputs and parameters can be set");
    }
    return OK;
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

EXPORT int fmi3EnterStepMode(instance *it) { return (void)it, OK; }

EXPORT int fmi3DoStep(instance *it, double time, double size, _Bool no_way_back, _Bool *event, _Bool *terminate,
                      _Bool *early, double *reached) {
    (void)no_way_back;
    double steps = rint(size / STEP_SIZE);
    *event = *terminate = *early = 0;
    *reached = time;
    if (!(steps >= 1.0 && fabs(size - steps * STEP_SIZE) <= 1e-6 * STEP_SIZE))
        return fail(it, "communicationStepSize must be a multiple of fixedInternalStepSize");
    for (double k = 0.0; k < steps; k += 1.0) {
        int status = step(it);
        if (status != OK) return status;
        *reached = time + (k + 1.0) * STEP_SIZE;
    }
    it->now.time = *reached = time + size;
    return OK;
}

/* ---- states that are saved ------------------------------------------------------------------------------------------ */

EXPORT int fmi3GetFMUState(instance *it, saved **state) {
    if (!*state && !(*state = (saved *)malloc(sizeof **state))) return fail(it, "no memory for a state");
    **state = it->now;
    return OK;
}

EXPORT int fmi3SetFMUState(instance *it, const saved *state) {
    it->now = *state;
    memset(it->work, 0, sizeof it->work); /* a step goes on from zeros just the same */
    return OK;
}

EXPORT int fmi3FreeFMUState(instance *it, saved **state) {
    (void)it;
    free(*state);
    *state = NULL;
    return OK;
}

EXPORT int fmi3SerializedFMUStateSize(instance *it, const saved *state, size_t *size) {
    (void)it, (void)state;
    *size = sizeof *state;
    return OK;
}

EXPORT int fmi3SerializeFMUState(instance *it, const saved *state, uint8_t *bytes, size_t size) {
    if (size != sizeof *state) return fail(it, "a serialised state has another size");
    memcpy(bytes, state, size);
    return OK;
}

EXPORT int fmi3DeserializeFMUState(instance *it, const uint8_t *bytes, size_t size, saved **state) {
    if (size != sizeof **state) return fail(it, "a serialised state has another size");
    if (!*state && !(*state = (saved *)malloc(sizeof **state))) return fail(it, "no memory for a state");
    memcpy(*state, bytes, size);
    return OK;
}

/* ---- what this FMU does not have: types without variables, events, derivatives, other kinds of simulation ----------- */

#define NONE(name) \
    EXPORT int name(instance *it, const uint32_t *references, size_t n) { \
        return (void)references, n ? fail(it, "no variable of this type") : OK; \
    }
NONE(fmi3GetFloat32) NONE(fmi3GetInt8) NONE(fmi3GetUInt8) NONE(fmi3GetInt16) NONE(fmi3GetUInt16) NONE(fmi3GetInt32)
NONE(fmi3GetUInt32) NONE(fmi3GetInt64) NONE(fmi3GetUInt64) NONE(fmi3GetBoolean) NONE(fmi3GetString) NONE(fmi3GetBinary)
NONE(fmi3GetClock) NONE(fmi3SetFloat32) NONE(fmi3SetInt8) NONE(fmi3SetUInt8) NONE(fmi3SetInt16) NONE(fmi3SetUInt16)
NONE(fmi3SetInt32) NONE(fmi3SetUInt32) NONE(fmi3SetInt64) NONE(fmi3SetUInt64) NONE(fmi3SetBoolean) NONE(fmi3SetString)
NONE(fmi3SetBinary) NONE(fmi3SetClock) NONE(fmi3GetIntervalDecimal) NONE(fmi3GetIntervalFraction)
NONE(fmi3GetShiftDecimal) NONE(fmi3GetShiftFraction) NONE(fmi3SetIntervalDecimal) NONE(fmi3SetIntervalFraction)
NONE(fmi3SetShiftDecimal) NONE(fmi3SetShiftFraction) NONE(fmi3GetOutputDerivatives)

#define UNSUPPORTED(name) \
    EXPORT int name(instance *it) { return fail(it, #name ": this FMU does not provide it"); }
UNSUPPORTED(fmi3EnterEventMode) UNSUPPORTED(fmi3GetNumberOfVariableDependencies) UNSUPPORTED(fmi3GetVariableDependencies)
UNSUPPORTED(fmi3GetDirectionalDerivative) UNSUPPORTED(fmi3GetAdjointDerivative) UNSUPPORTED(fmi3EnterConfigurationMode)
UNSUPPORTED(fmi3ExitConfigurationMode) UNSUPPORTED(fmi3EvaluateDiscreteStates) UNSUPPORTED(fmi3UpdateDiscreteStates)
UNSUPPORTED(fmi3EnterContinuousTimeMode) UNSUPPORTED(fmi3CompletedIntegratorStep) UNSUPPORTED(fmi3SetTime)
UNSUPPORTED(fmi3SetContinuousStates) UNSUPPORTED(fmi3GetContinuousStateDerivatives) UNSUPPORTED(fmi3GetEventIndicators)
UNSUPPORTED(fmi3GetContinuousStates) UNSUPPORTED(fmi3GetNominalsOfContinuousStates)
UNSUPPORTED(fmi3GetNumberOfEventIndicators) UNSUPPORTED(fmi3GetNumberOfContinuousStates)
UNSUPPORTED(fmi3ActivateModelPartition)
