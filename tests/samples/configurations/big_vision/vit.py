import ml_collections as mlc


def get_config():
  config = mlc.ConfigDict()
  config.batch_size = 1024
  config.num_epochs = 90
  config.grad_clip_norm = 1.0
  config.optax_name = 'scale_by_adam'
  config.lr = 0.001
  config.wd = 0.0001
  config.schedule = dict(warmup_steps=10_000, decay_type='cosine')
  return config
