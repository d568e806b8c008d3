lr = 0.0018
optim_wrapper = dict(
    type='OptimWrapper', optimizer=dict(type='AdamW', lr=lr, betas=(0.95, 0.99), weight_decay=0.01),
    clip_grad=dict(max_norm=10, norm_type=2))
param_scheduler = [
    dict(type='CosineAnnealingLR', T_max=16, eta_min=lr * 10, begin=0, end=16, by_epoch=True),
    dict(type='CosineAnnealingLR', T_max=24, eta_min=lr * 1e-4, begin=16, end=40, by_epoch=True),
    dict(type='CosineAnnealingMomentum', T_max=16, eta_min=0.85 / 0.95, begin=0, end=16, by_epoch=True)]
train_cfg = dict(by_epoch=True, max_epochs=40, val_interval=1)
