#include "batching/base/forecast.h"

/* Time of n steps whose work grows by the same amount each step: n times the time of the middle
 * step. */
static double steps_ms(const struct mr_cost_model *model, const struct mr_step_work *beside,
                       double steps, struct mr_step_work own)
{
    own.rows += beside->rows;
    own.history += beside->history;
    return steps * mr_cost_model_predict(model, &own);
}

double mr_forecast_ms(const struct mr_cost_model *model, const struct mr_forecast *forecast)
{
    if (model->observations < MR_FORECAST_STEPS_MIN || model->prefills < MR_FORECAST_PREFILLS_MIN)
        return 0;
    uint32_t chunk = forecast->chunk_tokens, pending = forecast->pending_tokens;
    if (chunk == 0 || chunk > pending) chunk = pending;
    double ms = 0;
    if (pending > 0) {
        struct mr_step_work own = {0};
        mr_step_work_add(&own, chunk, forecast->computed_tokens + (pending - chunk) / 2, false);
        own.scored = (uint32_t)((uint64_t)forecast->scored_tokens * chunk / pending);
        ms += steps_ms(model, &forecast->beside, (double)pending / chunk, own);
    }
    if (forecast->output_tokens > 1) {
        struct mr_step_work own = {0};
        uint32_t prompt = forecast->computed_tokens + pending;
        mr_step_work_add(&own, 1, prompt + forecast->output_tokens / 2, true);
        /* output_tokens - 1 decode steps, because the last prefill step yields the first output
         * token. */
        ms += steps_ms(model, &forecast->beside, forecast->output_tokens - 1.0, own);
    }
    return ms;
}
